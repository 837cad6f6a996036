"""The traffic log: what is written as Parquet, with which schema, where, and for how long."""
