"""The traffic history: what its columns mean, mining it with Spark, replaying it, and making logs with planted truth.

- `schema.py`: every table and column of the traffic log, the one place; also `observe/` writes by it.
- `thresholds.py`: names, units and plausible ranges of what is mined.
- `generate/`: seeded logs with planted truth, for tests and benchmarks.
- `mine/`, `replay*`, `report*`: the Spark jobs and what people read of them.

Nothing here is imported but `schema.py` and `thresholds.py` by the rest of the controller, so that it never needs Spark.
"""
