package io.stormpilot.schedulers;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.strategies.scheduling.ConstraintSolverStrategy;
import org.apache.storm.scheduler.resource.strategies.scheduling.DefaultResourceAwareStrategy;
import org.apache.storm.scheduler.resource.strategies.scheduling.DefaultResourceAwareStrategyOld;
import org.apache.storm.scheduler.resource.strategies.scheduling.GenericResourceAwareStrategy;
import org.apache.storm.scheduler.resource.strategies.scheduling.GenericResourceAwareStrategyOld;
import org.apache.storm.scheduler.resource.strategies.scheduling.IStrategy;
import org.apache.storm.scheduler.resource.strategies.scheduling.RoundRobinResourceAwareStrategy;

/**
 * The schedulers of Storm by the names of the command line, with what sets each apart in a
 * topology's settings.
 */
enum StormScheduler {
  DEFAULT("default", DefaultScheduler::new, Map.of()),
  EVEN("even", EvenScheduler::new, Map.of()),
  RAS_DEFAULT("ras-default", DefaultResourceAwareStrategy.class),
  RAS_PROXIMITY(
      "ras-proximity",
      ResourceAwareScheduler::new,
      Map.of(
          Config.TOPOLOGY_SCHEDULER_STRATEGY,
          DefaultResourceAwareStrategy.class.getName(),
          Config.TOPOLOGY_RAS_ORDER_EXECUTORS_BY_PROXIMITY_NEEDS,
          true)),
  RAS_DEFAULT_OLD("ras-default-old", DefaultResourceAwareStrategyOld.class),
  RAS_GENERIC("ras-generic", GenericResourceAwareStrategy.class),
  RAS_GENERIC_OLD("ras-generic-old", GenericResourceAwareStrategyOld.class),
  RAS_CONSTRAINT("ras-constraint", ConstraintSolverStrategy.class),
  RAS_ROUND_ROBIN("ras-round-robin", RoundRobinResourceAwareStrategy.class);

  private final String title;
  private final Supplier<IScheduler> create;
  private final Map<String, Object> settings;

  StormScheduler(String title, Class<? extends IStrategy> strategy) {
    this(
        title,
        ResourceAwareScheduler::new,
        Map.of(Config.TOPOLOGY_SCHEDULER_STRATEGY, strategy.getName()));
  }

  StormScheduler(String title, Supplier<IScheduler> create, Map<String, Object> settings) {
    this.title = title;
    this.create = create;
    this.settings = settings;
  }

  /** The name on the command line. */
  String title() {
    return title;
  }

  /** A new, unprepared instance. */
  IScheduler create() {
    return create.get();
  }

  /** The topology settings under which this scheduler is the one that was asked for. */
  Map<String, Object> settings() {
    return new HashMap<>(settings);
  }

  static StormScheduler named(String title) {
    return Arrays.stream(values())
        .filter(s -> s.title.equals(title))
        .findFirst()
        .orElseThrow(
            () ->
                new IllegalArgumentException(
                    "no scheduler is named " + title + "; there are: " + titles()));
  }

  static String titles() {
    return Arrays.stream(values()).map(s -> s.title).collect(Collectors.joining(", "));
  }
}
