package io.stormpilot.local;

import java.util.Map;
import org.apache.storm.daemon.supervisor.StandaloneSupervisor;
import org.apache.storm.daemon.supervisor.Supervisor;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.utils.Utils;

/**
 * Storm's supervisor daemon with an id that people can read and that survives a wiped local
 * directory.
 *
 * <p>The id is the value of {@value #ID}; without it Storm makes one up, as always.
 */
public final class NamedSupervisor extends StandaloneSupervisor {
  /** Key of the configuration: the supervisor's id. No id may be the beginning of another one. */
  public static final String ID = "stormpilot.local.supervisor.id";

  private final Object id;

  NamedSupervisor(Map<String, Object> conf) {
    this.id = conf.get(ID);
  }

  @Override
  public String generateSupervisorId() {
    return id == null ? super.generateSupervisorId() : id.toString();
  }

  /** Runs the daemon until it is told to end. */
  public static void main(String[] args) throws Exception {
    Utils.setupDefaultUncaughtExceptionHandler();
    Map<String, Object> conf = Utils.readStormConfig();
    new Supervisor(conf, null, new NamedSupervisor(conf), new StormMetricsRegistry())
        .launchDaemon();
  }
}
