package io.stormpilot.scheduler.round;

/** What a round does with a topology. */
enum Intent {
  /** Nothing: every worker stays where it is. */
  STILL,
  /** Nothing yet: the topology waits for its first plan. */
  WAIT,
  /** Carry out what is left of the plan in force. */
  MOVE,
  /** Find a place for lost executors. */
  REPAIR,
  /** The fallback scheduler schedules it. */
  FALLBACK
}
