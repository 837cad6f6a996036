package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.TopologyDetails;

/**
 * Who may be stopped for whom by the ResourceAwareScheduler, which sees no topology with a plan.
 *
 * <p>Alone it stops the last ones in its order. Where one of these has a plan, it would stop one
 * before it instead, which is more important. So whatever comes before one with a plan stays; what
 * waits for its room goes on to wait, until the controller has decided whose plan is given up.
 *
 * @param order all topologies of the cluster, the most important first
 * @param delegated those (ids) that are left to the scheduler
 * @param givenUp those of them (ids) that the controller has decided may be stopped
 */
record Precedence(List<TopologyDetails> order, Set<String> delegated, Set<String> givenUp) {

  /**
   * What the scheduler is handed, one list after the other: it places who waits, and stops nobody
   * but those after it in the list. Who stays and has lost executors has a turn of its own, with
   * those whom it may stop.
   */
  List<List<TopologyDetails>> turns(Cluster cluster) {
    int planned = lastPlanned(cluster);
    Set<TopologyDetails> others = new LinkedHashSet<>();
    List<Integer> lost = new ArrayList<>();
    for (int place = 0; place < order.size(); place++) {
      TopologyDetails t = order.get(place);
      boolean stays = place < planned && !givenUp.contains(t.getId()) && runs(t, cluster);
      if (delegated.contains(t.getId()) && !stays) {
        others.add(t);
      } else if (delegated.contains(t.getId()) && cluster.needsSchedulingRas(t)) {
        lost.add(place);
      }
    }
    List<List<TopologyDetails>> turns = new ArrayList<>(List.of(List.copyOf(others)));
    for (int place : lost) {
      List<TopologyDetails> turn = new ArrayList<>(order.subList(place, order.size()));
      turn.removeIf(t -> t != order.get(place) && !others.contains(t));
      turns.add(turn);
    }
    return turns;
  }

  /** Why one that found no room waits, or null: nobody with a plan comes after it. */
  Rejection waits(TopologyDetails topology, Cluster cluster) {
    int planned = lastPlanned(cluster);
    if (planned <= order.indexOf(topology)) {
      return null;
    }
    String text =
        "waits for room: %s comes after it and has a plan; it waits until the controller decides"
            + " who leaves (`decide.evict`)";
    return new Rejection(
        Reason.LOWER_PRIORITY_HAS_PLAN, text.formatted(order.get(planned).getName()));
  }

  /** The place of the last one that the scheduler cannot stop; -1: there is none. */
  private int lastPlanned(Cluster cluster) {
    for (int place = order.size() - 1; place >= 0; place--) {
      TopologyDetails t = order.get(place);
      if (!delegated.contains(t.getId()) && runs(t, cluster)) {
        return place;
      }
    }
    return -1;
  }

  private static boolean runs(TopologyDetails topology, Cluster cluster) {
    return !cluster.getUsedSlotsByTopologyId(topology.getId()).isEmpty();
  }
}
