"""The traffic log: what is written as Parquet, with which schema, where, and for how long.

- `schema.py`: every table and column. `rows.py`: rows of a window; `writer.py` writes them.
- `place.py`: the folder or object store. `retention.py`: files that are merged, and days that go.
- `reading.py`: rows without an engine, for `trial.py` and `trial_text.py` (`stormpilot trial-run`).
- Beside the tables: `audit.py` (`audit.jsonl`), `models.py` (models of published plans).
"""
