"""Instances to plan on, made with a seeded generator: for benchmarks, tests and `stormpilot model generate`.

- `shapes.py`: component graphs of real topologies; `traffic.py`: rates between executors by grouping
- `loaded.py`: clusters of several topologies filled to a given part, and small ones that can be solved exactly
- `unlike.py`: clusters whose nodes differ
- `planted.py`: a good placement hidden in noise, known
- `production.py`: traffic for clusters of which only the structure is known

Pure: no file, no clock, no chance but the generator that is passed in.
"""

from __future__ import annotations

from stormpilot.generate.models.loaded import Loaded, Small, loaded, small
from stormpilot.generate.models.planted import Planted, planted
from stormpilot.generate.models.production import Production, with_traffic
from stormpilot.generate.models.unlike import Unlike, unlike

__all__ = [
    "Loaded",
    "Planted",
    "Production",
    "Small",
    "Unlike",
    "loaded",
    "planted",
    "small",
    "unlike",
    "with_traffic",
]
