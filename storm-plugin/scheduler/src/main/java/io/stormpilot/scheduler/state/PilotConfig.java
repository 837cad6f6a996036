package io.stormpilot.scheduler.state;

import java.util.Map;
import org.apache.storm.DaemonConfig;
import org.apache.storm.utils.ObjectReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Our keys of storm.yaml. A value that cannot be used is named in the log and replaced by its
 * default: a typing error must not keep Nimbus from starting.
 *
 * @param zookeeperRoot {@value #ZOOKEEPER_ROOT}
 * @param loadTimeoutMs {@value #LOAD_TIMEOUT}: how long the first round waits for what ZooKeeper
 *     holds
 * @param portRestMs {@value #PORT_REST}: how long a port that a worker has left stays empty if it
 *     can
 * @param workerSettleMs {@value #WORKER_SETTLE}: how long a worker that was started is not moved
 *     again
 * @param maxMovedWorkers {@value #MAX_MOVED_WORKERS}: 0 = no limit
 * @param initialPlanWaitMs {@value #INITIAL_PLAN_WAIT}: how long a new topology waits for its first
 *     plan
 * @param planRetryMs {@value #PLAN_RETRY}: how long a plan that does not fit the cluster is tried
 *     again
 * @param takeOverGraceMs {@value #TAKE_OVER_GRACE}: how long after a Nimbus begins to lead
 *     executors that it takes for dead are put back where they were
 * @param fallbackScheduler {@value #FALLBACK_SCHEDULER}
 * @param planKeyFile {@value #PLAN_KEY_FILE}: file with the keys that plans are signed with; null =
 *     plans need no signature
 * @param controllerAcl {@value #CONTROLLER_ACL}: the controller's login as {@code scheme:id}; null
 *     = it uses Storm's own
 * @param monitorFreqMs Storm's own {@code nimbus.monitor.freq.secs}: time between rounds
 * @param taskLaunchMs Storm's own {@code nimbus.task.launch.secs}: how long a worker may take to
 *     come up
 */
public record PilotConfig(
    String zookeeperRoot,
    long loadTimeoutMs,
    long portRestMs,
    long workerSettleMs,
    int maxMovedWorkers,
    long initialPlanWaitMs,
    long planRetryMs,
    long takeOverGraceMs,
    String fallbackScheduler,
    String planKeyFile,
    String controllerAcl,
    long monitorFreqMs,
    long taskLaunchMs) {

  public static final String ZOOKEEPER_ROOT = "stormpilot.zookeeper.root";
  public static final String LOAD_TIMEOUT = "stormpilot.load.timeout.secs";
  public static final String PORT_REST = "stormpilot.port.rest.secs";
  public static final String WORKER_SETTLE = "stormpilot.worker.settle.secs";
  public static final String MAX_MOVED_WORKERS = "stormpilot.max.moved.workers.per.round";
  public static final String INITIAL_PLAN_WAIT = "stormpilot.initial.plan.wait.secs";
  public static final String PLAN_RETRY = "stormpilot.plan.retry.secs";
  public static final String TAKE_OVER_GRACE = "stormpilot.take.over.grace.secs";
  public static final String PLAN_KEY_FILE = "stormpilot.plan.key.file";
  public static final String CONTROLLER_ACL = "stormpilot.zookeeper.controller.acl";
  public static final String FALLBACK_SCHEDULER = "stormpilot.fallback.scheduler";

  public static final String DEFAULT_ROOT = "/stormpilot";
  public static final String DEFAULT_FALLBACK = "org.apache.storm.scheduler.DefaultScheduler";

  /** How the name of the scheduler itself ends: its package uses this one. */
  private static final String OURS = ".PilotScheduler";

  private static final Logger LOG = LoggerFactory.getLogger(PilotConfig.class);

  /** Read the merged storm.yaml that Nimbus hands over. */
  public static PilotConfig of(Map<String, Object> conf) {
    return new PilotConfig(
        text(conf, ZOOKEEPER_ROOT, DEFAULT_ROOT),
        millis(conf, LOAD_TIMEOUT, 5),
        millis(conf, PORT_REST, 20),
        millis(conf, WORKER_SETTLE, 10),
        (int) number(conf, MAX_MOVED_WORKERS, 0),
        millis(conf, INITIAL_PLAN_WAIT, 5),
        millis(conf, PLAN_RETRY, 60),
        millis(conf, TAKE_OVER_GRACE, 30),
        fallbackScheduler(conf),
        text(conf, PLAN_KEY_FILE, null),
        text(conf, CONTROLLER_ACL, null),
        millis(conf, DaemonConfig.NIMBUS_MONITOR_FREQ_SECS, 10),
        millis(conf, DaemonConfig.NIMBUS_TASK_LAUNCH_SECS, 120));
  }

  /** Ours would make one more of itself as its own fallback, and so on. */
  private static String fallbackScheduler(Map<String, Object> conf) {
    String name = text(conf, FALLBACK_SCHEDULER, DEFAULT_FALLBACK);
    if (!name.endsWith(OURS)) {
      return name;
    }
    LOG.error("storm.yaml: {} is {} itself; using {}", FALLBACK_SCHEDULER, name, DEFAULT_FALLBACK);
    return DEFAULT_FALLBACK;
  }

  private static String text(Map<String, Object> conf, String key, String otherwise) {
    Object value = conf.get(key);
    if (value == null) {
      return otherwise;
    }
    if (value instanceof String s && !s.isBlank()) {
      return s.strip();
    }
    LOG.error("storm.yaml: {} is {}, expected text; using {}", key, value, otherwise);
    return otherwise;
  }

  private static long millis(Map<String, Object> conf, String key, long otherwiseSecs) {
    return Math.round(number(conf, key, otherwiseSecs) * 1000);
  }

  private static double number(Map<String, Object> conf, String key, double otherwise) {
    Object value = conf.get(key);
    try {
      double number = value == null ? otherwise : ObjectReader.getDouble(value);
      if (number >= 0 && number <= Integer.MAX_VALUE) {
        return number;
      }
    } catch (RuntimeException e) {
      LOG.debug("not a number", e);
    }
    LOG.error(
        "storm.yaml: {} is {}, expected a number of 0 or more; using {}", key, value, otherwise);
    return otherwise;
  }
}
