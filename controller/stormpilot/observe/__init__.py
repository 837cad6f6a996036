"""Observation: reads ZooKeeper, and makes the planning model of it. Nothing is written.

- `reader.py`: everything in ZooKeeper as values, with watches, and with what could not be read named.
- `settings.py`: what operators set. `listing.py`, `last_good.py`, `plausible.py`: names and messages that are wrong.
- `reports.py`, `identity.py`: load reports, and which of them are believed.
- `load.py`, `samples.py`, `series.py`, `task_rates.py`: cumulative counters into rates over a window.
- `acker.py`, `edges.py`: rates between executors, derived where nothing counts. `change_points.py`: steps in traffic.
- `build.py`: snapshots and rates into the planning model; `readiness.py`: what is missing for it; `capacity.py`,
  `memory.py`, `isolation.py`, `ras.py`, `users.py`, `storm_keys.py`, `standby.py`, `sources.py`, `waiting.py`: its
  parts.
- `cpu_law.py`, `cpu_learner.py`: CPU that follows from places. `last_measured.py`: executors that tell nothing now.
- `observer.py`: all of these together, observation after observation.
- `assess.py`, `assess_ras.py`: the model of a cluster without load reports, from Nimbus alone.
"""
