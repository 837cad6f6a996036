"""Is it worth moving, and is it allowed? Pure: time comes in as `now_ms`.

- `reasons.py`: every answer has a code; what a decision is.
- `admit.py`: may a topology be planned at all now?
- `judge.py`: is this plan worth its restarts?
- `fit.py`: does what would be published fit what stands still?
- `memory.py`: what decisions remember from cycle to cycle.
"""
