"""`make demo`: Storm's own placement against ours, on a real multi-process cluster running real data.

- `__main__.py`: the story, stage by stage, and its exit code.
- `measure.py`: what the load reports say second by second, and over a window.
- `report.py`, `page.py`: `build/demo/report.json` and `report.html`.
- `repeated.py`: `make bench-demo`, many runs: the CPU of the busiest node before, planned and after.
"""
