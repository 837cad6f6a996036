"""Reads what there is to know, and makes of it what we believe.

- `reader.py`: everything in ZooKeeper as values, with watches, and with what could not be read named.
- `load.py`: cumulative counters of load reports into rates over a window.
- `acker.py`: the traffic of Storm's ackers, derived from what bolts and spouts count.
- `build.py`: snapshots and rates into the planning model, and what is missing for it.
- `observer.py`: all of these together, look after look.
- `trafficlog.py`, `logplace.py`, `rows.py`, `retention.py`: measured windows and decisions as Parquet, housekeeping.
- `thresholds.py`: which number a threshold has, and where it comes from.
"""
