"""Carrying out a whole plan without a dip: rolling moves [algorithms.md 5]. Pure: no I/O, no clock.

- `spare.py`: which executors can be routed around, and who carries what they did meanwhile.
- `sequence.py`: the steps that lead from one placement to another, or why there are none.
- `switches.py`: plans for which tasks that stand by need only get the tuples.
- `manner.py`: whether a plan is to be carried out by them or by restarts, and what either costs.
- `machine.py`: one rollout, step by step, whatever interrupts it; `facts.py`: what it sees, `tables.py`: its routes.
- `published.py`: what a step publishes.
- `watch.py`: which tasks work, which do nothing.

`rollout_runner.py` beside this package reads, writes, and has the time.
"""
