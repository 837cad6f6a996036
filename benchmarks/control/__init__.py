"""`make bench-control`: what the control loop costs on a large cluster, how fast it is, and whether it lasts.

- `rounds.py`: how long the plug-in's `schedule()` takes, beside Storm's own scheduler.
- `scale.py`: a simulated cluster through a real ZooKeeper, with a real controller process: cycle time, bytes, memory.
- `cycles.py`: what a cycle costs by how much has changed since the one before, without ZooKeeper and planner.
- `feeder.py`: what the scheduler plug-in and the topologies of that cluster write.
- `soak.py`: rates that change, hosts that are lost, controllers that fail over, on a real cluster.
- `live.py`: controllers of a real cluster; `page.py`: tables, and docs/results/control.md.
"""
