package io.stormpilot.scheduler.round;

import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;

/** A round of Storm's scheduler alone, the same with it as our fallback, and what runs after it. */
final class StormCases {

  private StormCases() {}

  /** What holds after a round of Storm's scheduler alone, and after one of ours without plans. */
  static void both(Supplier<Story> world, Supplier<IScheduler> scheduler, Consumer<Story> holds) {
    holds.accept(alone(world.get(), scheduler.get()));
    holds.accept(ours(world.get(), scheduler.get()));
  }

  static Story alone(Story story, IScheduler scheduler) {
    scheduler.prepare(story.conf(), new StormMetricsRegistry());
    again(story, scheduler);
    return story;
  }

  static void again(Story story, IScheduler scheduler) {
    Cluster cluster = story.cluster();
    scheduler.schedule(cluster.getTopologies(), cluster);
    story.keep(cluster);
  }

  static Story ours(Story story, IScheduler scheduler) {
    story.fallback(scheduler).controllerUp(false);
    story.round();
    return story;
  }

  static Set<String> hosts(Story story, String topology) {
    return story.placement(topology).keySet().stream()
        .map(slot -> slot.split(":")[0])
        .collect(Collectors.toSet());
  }

  static Set<Integer> running(Story story, String topology) {
    Set<Integer> tasks = new TreeSet<>();
    story.placement(topology).values().forEach(tasks::addAll);
    return tasks;
  }
}
