package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.State;
import io.stormpilot.scheduler.round.TopologyOutcome.StatusText;
import io.stormpilot.scheduler.state.SharingRules;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides on new plans. The plans of one plan set are accepted together or not at all: if one
 * cannot be carried out, or is not there yet, the others wait.
 *
 * <p>A plan that does not fit the cluster is rejected, but checked again for {@code retryMs}, since
 * a supervisor may come back or a slot be freed in the next moment; after that the rejection is
 * final, so that a plan made for an old load is not carried out by surprise much later. One that
 * was made for what a rebalance will make of the topology waits for that, for as long as it says;
 * the plan in force holds meanwhile.
 */
final class Admission {

  private static final Logger LOG = LoggerFactory.getLogger(Admission.class);

  /** What does not fit of a plan before the rebalance that it was made for. */
  private static final Set<Reason> MADE_BY_REBALANCE =
      EnumSet.of(Reason.WORKERS_CHANGED, Reason.EXECUTOR_UNKNOWN, Reason.EXECUTOR_MISSING);

  private final Map<String, TopologyContext> topologies;
  private final Slots slots;
  private final long epochSeen;
  private final boolean keepsRules;
  private final long retryMs;
  private final long now;
  private final Map<String, StatusText> waiting = new LinkedHashMap<>();
  private int newlyRejected;

  /**
   * What was decided, apart from what the topologies' memories keep.
   *
   * @param waiting by topology id, the status of those whose plan waits
   * @param newlyRejected plans that were rejected for the first time
   */
  record Decisions(Map<String, StatusText> waiting, int newlyRejected) {
    static final Decisions NONE = new Decisions(Map.of(), 0);
  }

  /**
   * Make one for a round.
   *
   * @param keepsRules Storm's own scheduler keeps rules on who shares a worker or a supervisor
   */
  Admission(
      Map<String, TopologyContext> topologies,
      Slots slots,
      boolean keepsRules,
      long epochSeen,
      long retryMs,
      long now) {
    this.topologies = topologies;
    this.slots = slots;
    this.keepsRules = keepsRules;
    this.epochSeen = epochSeen;
    this.retryMs = retryMs;
    this.now = now;
  }

  Decisions decide() {
    Map<String, List<TopologyContext>> planSets = new LinkedHashMap<>();
    for (TopologyContext topology : topologies.values()) {
      Plan plan = topology.candidate();
      if (plan != null) {
        planSets.computeIfAbsent(plan.planSet(), s -> new ArrayList<>()).add(topology);
      } else if (topology.entry() != null && topology.entry().rejection() != null) {
        reject(topology, topology.entry().rejection(), true);
      }
    }
    planSets.forEach(this::decide);
    return new Decisions(waiting, newlyRejected);
  }

  private void decide(String planSet, List<TopologyContext> members) {
    Map<TopologyContext, Rejection> rejected = new LinkedHashMap<>();
    for (TopologyContext member : members) {
      Rejection rejection = check(member);
      if (rejection != null) {
        rejected.put(member, rejection);
      }
    }
    if (rejected.isEmpty()) {
      rejected.putAll(clashes(members));
    }
    Obstacle obstacle = obstacle(planSet, members, rejected);
    for (TopologyContext member : members) {
      Rejection own = rejected.get(member);
      if (own != null && awaitsRebalance(member, own)) {
        setWaiting(member, own.reason(), "waits for the rebalance that it was made for");
      } else if (own != null) {
        reject(member, own, own.reason().isFinal() || isOld(member));
      } else if (obstacle == null) {
        member.memory().accept(member.candidate());
      } else {
        keepWaiting(member, obstacle);
      }
    }
  }

  /** Why a plan cannot be carried out, or null; a fault in one topology rejects its plan alone. */
  private Rejection check(TopologyContext member) {
    try {
      Rejection rejection =
          PlanValidator.check(
              member.candidate(),
              member.details().getExecutors(),
              member.current(),
              slots,
              member.details().getNumWorkers(),
              member.memory().workersChangedAtMs(),
              epochSeen);
      if (rejection != null || !keepsRules) {
        return rejection;
      }
      SharingRules rules = SharingRules.of(member.details(), supervisor -> null);
      return PlanValidator.checkRules(
          member.candidate(), member.current(), rules, slots::resources);
    } catch (Throwable e) {
      LOG.debug("cannot check the plan of {}", member.id(), e);
      return new Rejection(Reason.RULE_BROKEN, "the plan cannot be checked: " + e);
    }
  }

  /** Plans of one set that name the same slot. */
  private static Map<TopologyContext, Rejection> clashes(List<TopologyContext> members) {
    Map<Object, String> named = new LinkedHashMap<>();
    Map<TopologyContext, Rejection> clashes = new LinkedHashMap<>();
    for (TopologyContext member : members) {
      member
          .candidate()
          .workers()
          .forEach(
              worker -> {
                boolean stays =
                    member.current().slotOf(worker.supervisor(), worker.executors()) != null;
                String other = stays ? null : named.put(worker.slot(), member.id());
                if (other != null) {
                  String text = "slot " + worker.slot() + " is also in the plan of " + other;
                  clashes.put(member, new Rejection(Reason.SLOT_OCCUPIED, text));
                }
              });
    }
    return clashes;
  }

  /** Why the plans of a set that are good by themselves cannot be accepted. */
  private record Obstacle(Reason reason, String text, boolean mayPass) {}

  private Obstacle obstacle(
      String planSet, List<TopologyContext> present, Map<TopologyContext, Rejection> rejected) {
    for (Map.Entry<TopologyContext, Rejection> r : rejected.entrySet()) {
      return new Obstacle(
          Reason.PLAN_SET_INCOMPLETE,
          "the plan of "
              + r.getKey().id()
              + " in the same plan set is rejected: "
              + r.getValue().text(),
          false);
    }
    for (TopologyContext member : present) {
      if (member.held() != null) {
        String text =
            switch (member.held()) {
              case PAUSED -> " is paused";
              case ISOLATED -> " is isolated";
              default -> " is in mode off";
            };
        return new Obstacle(
            present.size() == 1 ? member.held() : Reason.PLAN_SET_INCOMPLETE,
            "topology " + member.details().getName() + text,
            true);
      }
    }
    Set<String> expected = new LinkedHashSet<>();
    present.forEach(member -> expected.addAll(member.candidate().members()));
    present.forEach(member -> expected.remove(member.id()));
    for (String id : expected) {
      TopologyContext other = topologies.get(id);
      if (other == null) {
        return new Obstacle(
            Reason.PLAN_SET_INCOMPLETE,
            "topology " + id + " of the same plan set is not running",
            false);
      }
      Plan accepted = other.memory().inForce();
      boolean there = accepted != null && accepted.planSet().equals(planSet);
      boolean unreadable =
          other.entry() != null
              && other.entry().rejection() != null
              && planSet.equals(other.entry().planSet());
      if (unreadable) {
        return new Obstacle(
            Reason.PLAN_SET_INCOMPLETE,
            "the plan of "
                + id
                + " in the same plan set is rejected: "
                + other.entry().rejection().text(),
            false);
      }
      if (!there) {
        return new Obstacle(
            Reason.PLAN_SET_INCOMPLETE,
            "the plan of " + id + " in the same plan set is not there",
            true);
      }
    }
    return null;
  }

  private void keepWaiting(TopologyContext member, Obstacle obstacle) {
    if (member.held() != null) {
      setWaiting(member, member.held(), obstacle.text());
    } else if (obstacle.mayPass() && !isOld(member)) {
      setWaiting(member, obstacle.reason(), "waits: " + obstacle.text());
    } else {
      reject(member, new Rejection(obstacle.reason(), obstacle.text()), isOld(member));
    }
  }

  private void setWaiting(TopologyContext member, Reason code, String text) {
    Plan plan = member.candidate();
    waiting.put(
        member.id(), new StatusText(State.WAITING, code, text, plan.planId(), plan.planSet()));
  }

  private void reject(TopologyContext topology, Rejection rejection, boolean forGood) {
    String key = TopologyMemory.key(topology.entry());
    if (topology.memory().lastCheck().rejected(key, rejection, forGood)) {
      newlyRejected++;
      LOG.warn(
          "rejected plan: topology={} plan={} reason={} {}",
          topology.id(),
          topology.entry().planId(),
          rejection.reason(),
          rejection.text());
    }
  }

  /** Whether the plan is made for what a rebalance that is on its way makes of the topology. */
  private boolean awaitsRebalance(TopologyContext member, Rejection rejection) {
    return MADE_BY_REBALANCE.contains(rejection.reason())
        && triedMs(member) < member.candidate().rebalanceMs();
  }

  private boolean isOld(TopologyContext member) {
    return triedMs(member) >= retryMs;
  }

  /** For how long the plan has been checked. */
  private long triedMs(TopologyContext member) {
    return now - member.memory().lastCheck().triedSince(member.candidate().key(), now);
  }
}
