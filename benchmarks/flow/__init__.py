"""`make bench-flow`: is the traffic that the flow model predicts the traffic that Storm then produces?

- `__main__.py`: rounds of placements on a local cluster; prediction before, measurement after, table and exit code.
- `jobs.py`: the topologies, and what is done with one: submit, publish a placement, measure.
- `placements.py`: the placements, seeded.
- `table.py`: rows, summary, `docs/results/flow.md`.
"""
