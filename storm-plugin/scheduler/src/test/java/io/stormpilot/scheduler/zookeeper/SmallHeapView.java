package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.TestZookeeper;
import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.state.View;
import java.util.List;
import java.util.Map;
import org.apache.storm.utils.Utils;

/**
 * A process of its own that watches a ZooKeeper as Nimbus does, ends as Nimbus does where a thread
 * does not catch an error, and prints what it sees: {@link BombTest} starts it with a small heap.
 */
final class SmallHeapView {

  private SmallHeapView() {}

  private static List<String> off(View view) {
    return view.modes().settings().entrySet().stream()
        .filter(setting -> setting.getValue() == Mode.OFF)
        .map(Map.Entry::getKey)
        .toList();
  }

  public static void main(String[] args) throws Exception {
    Utils.setupDefaultUncaughtExceptionHandler();
    Map<String, Object> conf = TestZookeeper.conf(Integer.parseInt(args[0]));
    PlanWatch watch =
        new PlanWatch(TestZookeeper.client(conf), new Paths("/stormpilot"), new LeaderLock(conf));
    watch.start();
    watch.refresh(1);
    String last = "";
    while (System.in.available() == 0) {
      View view = watch.view();
      long good = view.plans().values().stream().filter(entry -> entry.plan() != null).count();
      String now =
          String.format(
              "loaded=%s plans=%s good=%s off=%s statuses=%s problems=%s",
              view.loaded() && watch.refreshed(),
              view.plans().size(),
              good,
              off(view),
              view.statuses().keySet(),
              view.problems().stream().map(problem -> problem.path()).toList());
      if (!now.equals(last)) {
        System.out.println(now);
        last = now;
      }
      Thread.sleep(50);
    }
    System.exit(0);
  }
}
