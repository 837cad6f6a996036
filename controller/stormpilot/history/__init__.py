"""The traffic history: meaning of its columns, mining with Spark, replay, and synthetic logs with ground truth.

- `schema.py`: every table and column of the traffic log, the one place; also `observe/` writes by it.
- `generate/`: seeded synthetic logs with ground truth, for tests and benchmarks.
- `mine/`, `replay*`, `report*`: the Spark jobs and what people read of them.

The rest of the controller imports only `schema.py` of these: it never needs Spark.
"""
