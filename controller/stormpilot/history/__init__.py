"""The recorded past: thresholds mined from the traffic log, planners replayed on it, and the report of both.

- `mine/`: thresholds, costs and profiles, with DuckDB or Spark; `replay/`: other planners and settings; `report/`: one
  page of both.
- `engines.py`: which of DuckDB and Spark mines a log, and why; `frames.py`: the dataframes that findings use on either;
  `duck.py` and `spark.py`: their sessions.

`trafficlog/` has the tables and writes them, `generate/logs/` makes synthetic ones. A running controller imports
nothing of this folder, so that it never needs Spark.
"""
