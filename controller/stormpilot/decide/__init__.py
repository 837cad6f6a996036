"""Decisions about plans: whether a topology may move, and whether it is worth it. Pure: time comes in as `now_ms`.

- `reasons.py`: the table of reasons. `decision.py`: the decision. `gates.py`: the gates as `explain` shows them.
- `admit.py`: admission of a topology to planning. `policy.py`: its mode.
- `predict.py`, `evaluate.py`, `judge.py`: prediction, evaluation for each topology, verdict on the whole plan.
- `criteria.py`: what a plan is judged by. `closed_loop.py`, `sequential.py`: own gains; gains that are beyond noise.
  `returns.py`: executors that would come back to a node that they overloaded.
- `capacity_check.py`, `budget.py`, `approval.py`: the gates that a plan passes before it is published.
- `drain.py`, `requests.py`: executors that must leave, operators' requests.
- `effect.py`, `restarts.py`: the effect of moves and their downtime. `events.py`: events of moves.
- `memory.py`: observations of earlier cycles. `report.py`: the report of a cycle.
"""
