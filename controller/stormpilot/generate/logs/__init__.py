"""Seeded synthetic logs with ground truth: what a miner must find is known, because it was put there.

- `spec.py`: what to make; `truth.py`: what was planted, written as `truth.json` beside the log.
- `shape.py`: components, executors, edges of a topology; `places.py`: where they run, placement after placement.
- `timeline.py`: rates, bursts, overloads, gaps over time; `rows.py`: a stretch of time as tables; `tables.py`: files.
- `log.py`: all together.
"""

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.generate.logs.truth import Truth

__all__ = ["Spec", "Truth", "generate"]
