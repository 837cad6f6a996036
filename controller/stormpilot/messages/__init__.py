"""Messages that pass through ZooKeeper: one definition per message, read by Python and Java alike.

`docs/reference/zookeeper.md` lists every znode, `tests/contract/` has an example of each.

- `core.py`: plans, statuses, snapshots. `load.py`: load reports. `settings.py`: operators' settings and requests.
- `moves.py`, `rollouts.py`, `routes.py`, `handover.py`, `routable.py`: what moves, and how.
- `controller_state.py`: what the last cycle said. `thresholds.py`: what was mined.
- `limits.py`, `failures.py`, `signing.py`, `casing.py`: how a message is read, refused, signed and spelt.
"""
