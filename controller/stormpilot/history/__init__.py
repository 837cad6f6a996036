"""The traffic history: what its columns mean, mining it with Spark, replaying it, and making logs with planted truth.

- `schema.py`: every table and column of the traffic log, the one place; also `observe/` writes by it.
- `generate/`: seeded logs with planted truth, for tests and benchmarks.
- `mine/`, `replay*`, `report*`: the Spark jobs and what people read of them.

The rest of the controller imports only `schema.py` of these: it never needs Spark.
"""
