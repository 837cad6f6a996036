package io.stormpilot.worker.report;

import java.util.Map;
import org.apache.storm.utils.ObjectReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Our keys of a topology's configuration.
 *
 * @param periodMs {@value #REPORT_SECS}: time between two reports
 * @param zookeeperRoot {@value #ZOOKEEPER_ROOT}
 */
public record HookConfig(long periodMs, String zookeeperRoot) {

  public static final String ENABLED = "stormpilot.hook";
  public static final String REPORT_SECS = "stormpilot.report.secs";
  public static final String ZOOKEEPER_ROOT = "stormpilot.zookeeper.root";

  private static final Logger LOG = LoggerFactory.getLogger(HookConfig.class);
  private static final double DEFAULT_REPORT_SECS = 5;

  /** Read the merged configuration; what cannot be used is named in the log and replaced. */
  public static HookConfig of(Map<String, Object> conf) {
    return new HookConfig(Math.round(periodSecs(conf) * 1000), root(conf));
  }

  /** Whether the topology wants to be measured: it does unless {@value #ENABLED} is false. */
  public static boolean enabled(Map<String, Object> conf) {
    Object value = conf.get(ENABLED);
    return value == null || !"false".equalsIgnoreCase(value.toString().strip());
  }

  private static double periodSecs(Map<String, Object> conf) {
    Object value = conf.get(REPORT_SECS);
    try {
      double secs = value == null ? DEFAULT_REPORT_SECS : ObjectReader.getDouble(value);
      if (secs >= 0.05 && secs <= 3600) {
        return secs;
      }
    } catch (RuntimeException e) {
      LOG.debug("not a number", e);
    }
    LOG.warn(
        "{} is {}, expected seconds from 0.05 to 3600; using {}",
        REPORT_SECS,
        value,
        DEFAULT_REPORT_SECS);
    return DEFAULT_REPORT_SECS;
  }

  private static String root(Map<String, Object> conf) {
    Object value = conf.get(ZOOKEEPER_ROOT);
    String text = value == null ? "" : value.toString().strip();
    String root = ZookeeperRoot.normal(text.isEmpty() ? "stormpilot" : text);
    return root.equals("/") ? "" : root;
  }
}
