"""The planning model: cluster, topologies, load, plan, cost. Values only, no I/O (see tests/unit/test_imports.py).

- `values.py`: the planning model and the plan, as `model.json` and `plan.json` hold them (snake_case).
- `compiled.py`: the model as arrays. `cost.py`, `latency.py`, `load.py`: the cost of a placement. `diff.py`: changes.
- `validate.py`, `bounds.py`: which documents are a model. `violations.py`: hard constraints that a plan breaks.
- `constraints.py`, `sharing.py`: what operators and users allow. `subset.py`, `what_if.py`: parts, changed models.
- `flow/`: where shuffled tuples go under a placement: `build.py` and `arrays.py` make flows from a model, `model.py`
  has them, `kernel.py` and `scope.py` the loops over them, `delta.py` what a move changes.
- `closed_loop.py`, `carried.py`, `forecast.py`: rates that may come.
- `unmeasured_cpu.py`, `readiness.py`: what is not known. `short_of_cpu.py`: more load than plans may fill.
- `jit.py`, `compiling.py`: how inner loops are compiled, and the notice that they are.
"""
