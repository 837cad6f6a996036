"""`make bench-moves`: what moving executors costs, as the N-Storm paper measures it, on a real local cluster.

- `__main__.py`: every variant for Java and Python targets, one move a minute; table, JSON, `docs/results/moves.md`.
- `variants.py`: Storm's rebalance, our plan with restarts, a route switch, rolling moves.
- `measured.py`: the source's file into seconds below normal, failed tuples, latency during moves.
- `page.py`: rows as a table and as a page.
- `otd.py`: one task at a time on the word counts of the paper.
- `project/`: the topologies; their source writes down what became of its tuples.
"""
