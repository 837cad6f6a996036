package io.stormpilot.round;

import io.stormpilot.message.Plan;
import io.stormpilot.message.Reason;
import io.stormpilot.message.Rejection;
import io.stormpilot.message.State;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;

/**
 * Decides on new plans. The plans of one round are accepted together or not at all: if one cannot
 * be carried out, or is not there yet, the others wait.
 *
 * <p>A plan that does not fit the cluster is refused, but looked at again for {@code retryMs},
 * since a supervisor may come back or a slot be freed in the next moment; after that the refusal is
 * final, so that a plan made for an old load is not carried out by surprise much later.
 */
final class Admission {

  private final Map<String, TopologyRound> topologies;
  private final Slots slots;
  private final long epochSeen;
  private final long retryMs;
  private final long now;
  private final BiConsumer<TopologyRound, Rejection> newlyRefused;

  Admission(
      Map<String, TopologyRound> topologies,
      Slots slots,
      long epochSeen,
      long retryMs,
      long now,
      BiConsumer<TopologyRound, Rejection> newlyRefused) {
    this.topologies = topologies;
    this.slots = slots;
    this.epochSeen = epochSeen;
    this.retryMs = retryMs;
    this.now = now;
    this.newlyRefused = newlyRefused;
  }

  void decide() {
    Map<String, List<TopologyRound>> rounds = new LinkedHashMap<>();
    for (TopologyRound topology : topologies.values()) {
      Plan plan = topology.candidate();
      if (plan != null) {
        rounds.computeIfAbsent(plan.round(), r -> new ArrayList<>()).add(topology);
      } else if (topology.entry != null && topology.entry.rejection() != null) {
        refuse(topology, topology.entry.rejection(), true);
      }
    }
    rounds.forEach(this::decide);
  }

  private void decide(String round, List<TopologyRound> members) {
    Map<TopologyRound, Rejection> refused = new LinkedHashMap<>();
    for (TopologyRound member : members) {
      Rejection rejection =
          PlanValidator.check(
              member.candidate(),
              member.details.getExecutors(),
              member.current,
              slots,
              member.memory.workersChangedAtMs(),
              epochSeen);
      if (rejection != null) {
        refused.put(member, rejection);
      }
    }
    if (refused.isEmpty()) {
      refused.putAll(clashes(members));
    }
    Obstacle obstacle = obstacle(round, members, refused);
    for (TopologyRound member : members) {
      Rejection own = refused.get(member);
      if (own != null) {
        refuse(member, own, isFinal(own.reason()) || isOld(member));
      } else if (obstacle == null) {
        member.memory.accept(member.candidate());
      } else {
        await(member, obstacle);
      }
    }
  }

  /** Plans of one round that name the same slot. */
  private static Map<TopologyRound, Rejection> clashes(List<TopologyRound> members) {
    Map<Object, String> named = new LinkedHashMap<>();
    Map<TopologyRound, Rejection> clashes = new LinkedHashMap<>();
    for (TopologyRound member : members) {
      member
          .candidate()
          .workers()
          .forEach(
              worker -> {
                boolean stays =
                    member.current.slotOf(worker.supervisor(), worker.executors()) != null;
                String other = stays ? null : named.put(worker.slot(), member.id());
                if (other != null) {
                  String text = "slot " + worker.slot() + " is also in the plan of " + other;
                  clashes.put(member, new Rejection(Reason.SLOT_OCCUPIED, text));
                }
              });
    }
    return clashes;
  }

  /** Why the plans of a round that are good by themselves cannot be accepted. */
  private record Obstacle(Reason reason, String text, boolean mayPass) {}

  private Obstacle obstacle(
      String round, List<TopologyRound> present, Map<TopologyRound, Rejection> refused) {
    for (Map.Entry<TopologyRound, Rejection> r : refused.entrySet()) {
      return new Obstacle(
          Reason.ROUND_INCOMPLETE,
          "the plan of "
              + r.getKey().id()
              + " in the same round is refused: "
              + r.getValue().text(),
          false);
    }
    for (TopologyRound member : present) {
      if (member.held != null) {
        String text = member.held == Reason.PAUSED ? " is paused" : " is in mode off";
        return new Obstacle(
            present.size() == 1 ? member.held : Reason.ROUND_INCOMPLETE,
            "topology " + member.details.getName() + text,
            true);
      }
    }
    Set<String> expected = new LinkedHashSet<>();
    present.forEach(member -> expected.addAll(member.candidate().members()));
    present.forEach(member -> expected.remove(member.id()));
    for (String id : expected) {
      TopologyRound other = topologies.get(id);
      if (other == null) {
        return new Obstacle(
            Reason.ROUND_INCOMPLETE, "topology " + id + " of the same round is not running", false);
      }
      Plan accepted = other.memory.inForce();
      boolean there = accepted != null && accepted.round().equals(round);
      boolean unreadable =
          other.entry != null
              && other.entry.rejection() != null
              && round.equals(other.entry.round());
      if (unreadable) {
        return new Obstacle(
            Reason.ROUND_INCOMPLETE,
            "the plan of "
                + id
                + " in the same round is refused: "
                + other.entry.rejection().text(),
            false);
      }
      if (!there) {
        return new Obstacle(
            Reason.ROUND_INCOMPLETE, "the plan of " + id + " in the same round is not there", true);
      }
    }
    return null;
  }

  private void await(TopologyRound member, Obstacle obstacle) {
    Rejection rejection = new Rejection(obstacle.reason(), obstacle.text());
    if (member.held != null) {
      member.about(member.candidate().planId(), member.candidate().round());
      member.say(State.WAITING, member.held, obstacle.text());
    } else if (obstacle.mayPass() && !isOld(member)) {
      member.about(member.candidate().planId(), member.candidate().round());
      member.say(State.WAITING, rejection.reason(), "waits: " + rejection.text());
    } else {
      refuse(member, rejection, isOld(member));
    }
  }

  private void refuse(TopologyRound topology, Rejection rejection, boolean forGood) {
    if (topology.memory.refuse(TopologyMemory.key(topology.entry), rejection, forGood)) {
      newlyRefused.accept(topology, rejection);
    }
  }

  private boolean isOld(TopologyRound member) {
    return now - member.memory.triedSince(member.candidate().key(), now) >= retryMs;
  }

  private static boolean isFinal(Reason reason) {
    return switch (reason) {
      case EPOCH_OLD, WORKERS_CHANGED, EXECUTOR_MISSING, EXECUTOR_UNKNOWN -> true;
      default -> false;
    };
  }
}
