"""`make bench-planners`: our planners against Storm's own schedulers, graph partitioners and the proved optimum.

    make bench-planners                                # everything (hours; Ctrl-C loses nothing, run it again to go on)
    make bench-planners ARGS="--quick"                 # a small version of everything, minutes
    make bench-planners ARGS="--only small,medium"     # parts
    make bench-planners ARGS="--only set --set ../planner-set"   # clusters whose best known plans are told
    make bench-planners ARGS="--report --publish"      # tables and plots of what was measured, into docs/results

- `__main__.py`: the command; `parts.py`: what is run, part by part
- `instances.py`: the models, as files; `contestants.py`: who plans them
- `bench.py`, `storm.py`, `process.py`, `launch.py`, `baselines.py`: how each kind of contestant is run
- `unlike.py`, `unlike_report.py`: clusters whose nodes differ, and their page
- `published.py`: the rows beside a page, which it can be made of again
- `rows.py`: one result, and the file that makes runs resumable
- `targets.py`, `tables.py`, `plots.py`, `report.py`: `docs/results/planners.md`, its plots, `build/bench/planners.json`
"""
