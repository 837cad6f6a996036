"""Spark jobs over the traffic log: from a month of windows to a few numbers, each with its evidence [algorithms.md 9].

- `reading.py`: a table of the log as a frame; `condense.py`: the one pass over each big table, to windows and hours.
- one file per finding, `DataFrame -> DataFrame`: `noise.py`, `knee.py`, `overload.py`, `otd.py`, `selectivity.py`,
  `cpu.py`, `performance.py`, `profile.py`, `restart.py`. Every row has `rows` of the log, `first` and `last` (its time
  span) and what tells whether it is enough; none decides that.
- `enough.py`: how much is enough; `findings.py`: rows of these frames into messages, or into defaults that say why.
- `job.py`: all of it in order; `spark-submit` runs `stormpilot/__main__.py` with `trafficlog mine ...`.

Topologies are told apart by name: a topology that is submitted again goes on with its history. Frames hold no Python
function: everything runs inside Spark.
"""
