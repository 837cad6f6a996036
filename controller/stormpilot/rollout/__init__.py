"""Rollouts: carrying out a plan by rolling moves, without downtime. Pure: no I/O, no clock.

- `feasibility.py`: the move strategy of a plan: rolling moves or restarts, and the cost of either.
- `peer_capacity.py`: which executors can be routed around, and which peers take their tuples meanwhile.
- `steps.py`: the steps that lead from one placement to another, or why there are none.
- `switches.py`: plans for which standby tasks only need the tuples.
- `state_machine.py`: one rollout, whatever interrupts it; `facts.py`: its input, `routing.py`: its routes.
- `step_plan.py`: the plan that a step publishes.
- `idle.py`: which tasks work, which do nothing.

`control/rollout_runner.py` reads, writes, and has the time. Why so: docs/decisions/0012-rolling-moves.md.
"""
