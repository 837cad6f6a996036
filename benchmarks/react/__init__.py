"""Time until topologies get a better placement on a real cluster. `make bench-react`.

- `step.py`: from a step in the traffic to a better placement that runs; `step/` is its job.
- `held.py`: a topology that is held up by a small node is freed; `held/` is its job.
- `page.py`: the tables, and the page in docs/results/.
"""
