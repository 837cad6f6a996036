package io.stormpilot.worker.report;

import io.stormpilot.worker.measure.Host;
import java.net.UnknownHostException;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.utils.Utils;

/**
 * Which worker this is.
 *
 * @param host {@code storm.local.hostname} of its supervisor, else the machine's name
 * @param mhz of the fastest core, null where the machine does not tell
 * @param hostCores cores of the machine, or of its container
 * @param hostMemoryMb memory of the machine, or of its container; null where nothing tells
 */
record Worker(
    String topologyId,
    String host,
    int port,
    long pid,
    long startMs,
    Double mhz,
    double hostCores,
    Double hostMemoryMb) {

  static Worker of(Map<String, Object> conf, WorkerTopologyContext context) {
    Host host = new Host();
    return new Worker(
        context.getStormId(),
        host(conf),
        context.getThisWorkerPort(),
        ProcessHandle.current().pid(),
        System.currentTimeMillis(),
        host.mhz(),
        host.cores(),
        host.memoryMb());
  }

  /** Its name below {@code load/<topology-id>}. */
  String reporter() {
    return host.replace('/', '_') + "-" + port;
  }

  static String host(Map<String, Object> conf) {
    Object configured = conf.get(Config.STORM_LOCAL_HOSTNAME);
    if (configured != null && !configured.toString().isBlank()) {
      return configured.toString().strip();
    }
    try {
      return Utils.hostname(); // whole, as its supervisor calls itself
    } catch (UnknownHostException e) {
      return "unknown";
    }
  }
}
