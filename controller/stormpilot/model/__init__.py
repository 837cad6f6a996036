"""What we believe: cluster, topologies, load, plan, cost. Values only, no I/O (see tests/unit/test_imports.py).

- `values.py`: the planning model and the plan, as `model.json` and `plan.json` hold them (snake_case).
- `messages.py`: what passes through ZooKeeper between shim, topologies and controller (camelCase).
- `flow.py`: where shuffled tuples go under a placement; `flow_build.py`, `flow_arrays.py`: flows from a model;
  `flow_kernel.py`, `flow_scope.py`: the loops over them; `flow_delta.py`: what a move changes.
- `jit.py`: how inner loops are compiled.
"""
