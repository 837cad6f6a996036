"""`make bench-control`: what the control loop costs on a large cluster.

- `scale.py`: a simulated cluster through a real ZooKeeper, with a real controller process: cycle time, bytes, memory.
- `feeder.py`: what the scheduler plug-in and the topologies of that cluster write.
- `rounds.py`: how long the plug-in's `schedule()` takes, beside Storm's own scheduler.
"""
