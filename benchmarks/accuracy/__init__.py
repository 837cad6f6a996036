"""`make bench-accuracy`: are predicted CPU of a node, and latency of a topology, those that come?

- `__main__.py`: rounds of placements on isolated nodes; what each window showed is kept, then judged by both models.
- `cases.py`: the topologies, and how they are submitted.
- `placements.py`: the placements, seeded.
- `constants.py`: the constants of the law from all windows together.
- `processes.py`: CPU that the kernel counted, by worker.
- `windows.py`: measured windows: reports, placement, and the kernel's CPU.
- `table.py`: predicted against measured CPU: rows, summary; `latency.py`: latency.
- `page.py`: `docs/results/accuracy.md`.
"""
