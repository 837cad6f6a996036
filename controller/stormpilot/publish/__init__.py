"""Publishing: plans written where the scheduler plug-in reads them.

- `epoch.py`: the number that fences plans: who was deposed cannot publish.
- `message.py`: a plan and its decision as messages.
- `publisher.py`: all plans of a decision at once, by compare-and-set, with their history.
- `room.py`: CPU and memory in a plan, by which the plug-in repairs. `cleaner.py`: what dead topologies left.
"""
