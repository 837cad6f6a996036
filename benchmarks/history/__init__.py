"""`make bench-history`: the traffic log mined and replayed, with DuckDB and a Spark cluster beside it.

    make bench-history                                   # everything: half an hour on 2 free cores; figures are kept
    make bench-history ARGS="--only mine --sizes 1,10"   # parts; sizes in million rows of edges
    make bench-history ARGS="--report --publish"         # tables of what was measured, into docs/results

- `__main__.py`: the command and its parts; `logs.py`: the logs, made once
- `measure.py`: a process with all its children: time, CPU, memory; `aggregate.py`: one query, by Spark and by DuckDB
- `standalone.py`: a Spark cluster of a master and two workers on loopback; `report.py`: JSON and Markdown
"""
