"""The control loop: one daemon that leads, observes, decides, publishes and verifies.

- The process: `daemon.py` (session, election, configuration), `leadership.py` (the loop of a leader), `schedule.py`,
  `signals.py`, `current_config.py`.
- The cycle: `cycle.py` has its stages on one page, `situation.py` what is known, `topology_state.py` what gates ask
  for; `assembly.py` gives each collaborator what it needs.
- Plans, by urgency: `request_handler.py` and `partners.py` (operators), `drains.py`, `rollbacks.py`, `evictions.py` and
  `ranks.py` (the ResourceAwareScheduler), `improvements.py` (gain, overload, first plans, repairs); `last_plans.py` and
  `reservations.py` keep what was planned before.
- From a plan to ZooKeeper: `planner_client.py` asks the planner process, `plan_evaluation.py` weighs, then
  `plan_dispatcher.py` publishes; `rollout_runner.py` and `rollout_gates.py` carry out what restarts nothing.
- Afterwards: `move_tracker.py` verifies moves; `recorder.py`, `decision_rows.py`, `audit_records.py`, `outbox.py` and
  `status_log.py` tell what happened.
- Loops of their own: `otd_loop.py`, `sizing_advisor.py`.
"""
