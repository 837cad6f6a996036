"""Mining of the traffic log: from a month of windows to a few numbers, each with its evidence.

- `log.py`: the log as findings see it; `reading.py` on Spark, `reading_duckdb.py` on DuckDB; `condense.py`: the one
  pass over each big table, to windows and hours.
- one file per finding, `DataFrame -> DataFrame`: `noise.py`, `knee.py`, `overload.py`, `otd.py`, `selectivity.py`,
  `cpu.py`, `performance.py`, `weekly_profile.py`, `restart.py`. Every row has `rows` of the log, `first` and `last`
  (its time span) and what tells whether it is enough; none decides that.
- `days.py`: draws of days, which tell how sure a number is; `limit.py`: whether a knee is sure enough to be in force.
- `entries.py`: what is enough for a number; `findings.py`: rows of these frames into messages, or into defaults that
  say why.
- `job.py`: all of it in order; `spark-submit` runs `stormpilot/__main__.py` with `trafficlog mine ...`.

Topologies are told apart by name: a topology that is submitted again goes on with its history. Frames hold no Python
function: everything runs inside the engine (`history/frames.py`). Formulas: docs/concepts/mining.md.
"""
