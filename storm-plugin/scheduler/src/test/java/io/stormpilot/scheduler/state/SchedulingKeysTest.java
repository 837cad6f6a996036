package io.stormpilot.scheduler.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

/** Every key of Storm's schedulers is on the page that says what we do with it. */
class SchedulingKeysTest {

  private static final Path PAGE = Path.of("..", "..", "docs", "reference", "storm-keys.md");
  private static final Pattern ROW = Pattern.compile("^\\| `([^`]+)` \\|", Pattern.MULTILINE);
  private static final Pattern OF_SCHEDULERS =
      Pattern.compile(
          "topology\\.(ras|scheduler|component|spread|isolate)\\..*"
              + "|topology\\.(acker|metrics\\.consumer)\\.(cpu|resources)\\..*"
              + "|topology\\.(priority|workers|tasks|max\\.task\\.parallelism)"
              + "|topology\\.(acker|eventlogger)\\.executors"
              + "|topology\\.worker\\.max\\.heap\\.size\\.mb"
              + "|supervisor\\.(cpu|memory)\\.capacity.*|supervisor\\.resources\\.map"
              + "|supervisor\\.(numa|scheduler)\\.meta|supervisor\\.slots\\.ports"
              + "|(blacklist|isolation|multitenant|resource\\.aware)\\.scheduler\\..*"
              + "|nimbus\\.(slots|executors)\\.perTopology|nimbus\\.scheduler\\..*"
              + "|(scheduler|scheduling)\\..*|storm\\.scheduler"
              + "|storm\\.network\\.topography\\.plugin|storm\\.worker\\.min\\.cpu\\.pcore\\.percent");

  /** Whether a key is about the placement of one topology, beyond what every topology has. */
  static boolean isOfSchedulers(String key) {
    return key.matches("topology\\.(ras|scheduler|component|spread|isolate)\\..*");
  }

  @Test
  void ofNimbusOnlyWhatIsNotStormsDefaultIsTold() {
    Map<String, Object> conf = Utils.readDefaultConfig();
    assertEquals("{}", SchedulingKeys.ofNimbus(conf).toString());
    conf.put(DaemonConfig.RESOURCE_AWARE_SCHEDULER_PRIORITY_STRATEGY, "org.example.ByName");
    assertEquals(
        "{\"resource.aware.scheduler.priority.strategy\":\"org.example.ByName\"}",
        SchedulingKeys.ofNimbus(conf).toString());
  }

  /** As YAML reads {@code 8080: x}, and {@code ~: x}: a typing error that Storm does not mind. */
  @Test
  @SuppressWarnings("unchecked")
  void keysThatAreNoTextKeepNoNimbusFromStarting() {
    Map<String, Object> conf = Utils.readDefaultConfig();
    ((Map<Object, Object>) (Map<?, ?>) conf).put(8080, "x");
    conf.put(null, "x");
    assertEquals("{}", SchedulingKeys.ofNimbus(conf).toString());
  }

  /** Asked for in each round: an exception here would leave nothing told of the cluster. */
  @Test
  void whatIsUnlimitedInYamlIsTold() throws Exception {
    double unlimited = Double.POSITIVE_INFINITY;
    Map<String, Object> conf = Utils.readDefaultConfig();
    conf.put(DaemonConfig.ISOLATION_SCHEDULER_MACHINES, Map.of("words", unlimited));
    List<JsonObject> told =
        List.of(
            SchedulingKeys.ofUsers(Map.of("ops", Map.of("cpu", unlimited))),
            SchedulingKeys.ofNimbus(conf),
            Isolation.pools(Map.of("ops", unlimited)));
    for (JsonObject keys : told) {
      keys.addProperty("schema", 1);
      Payload.decode(Payload.encode(keys), Limits.SNAPSHOT);
    }
  }

  @Test
  void everySchedulingKeyOfStormHasARow() throws IOException, IllegalAccessException {
    Set<String> rows = new TreeSet<>();
    Matcher found = ROW.matcher(Files.readString(PAGE));
    while (found.find()) {
      rows.add(found.group(1));
    }
    Set<String> keys = new TreeSet<>();
    for (Class<?> of : Set.of(Config.class, DaemonConfig.class)) {
      for (Field field : of.getFields()) {
        if (field.getType() == String.class
            && OF_SCHEDULERS.matcher((String) field.get(null)).matches()) {
          keys.add((String) field.get(null));
        }
      }
    }
    assertFalse(keys.isEmpty());
    keys.removeAll(rows);
    assertEquals(
        Set.of(), keys, "rows are written from controller/stormpilot/observe/storm_keys.py");
  }
}
