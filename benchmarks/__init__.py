"""Measured runs: one folder per `make bench-NAME`, each prints a table and writes `build/bench/NAME.json`.

`demo/` is `make demo`: a real cluster and a real job, before and after our plan. `planners/`: our planners against
Storm's own schedulers, graph partitioners and the proved optimum, on models.
"""
