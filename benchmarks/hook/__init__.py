"""`make bench-hook`: what the task hook costs a fast Java topology.

- `__main__.py`: pairs of runs with and without the hook, in turn; table, JSON, `docs/results/hook.md`.
- `runs.py`: one run: a worker process of its own, flat out and at a rate, read from its log.
- `table.py`: pairs into the cost and its spread.
"""
