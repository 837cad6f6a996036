"""Puts plans where the scheduler plug-in reads them.

- `epoch.py`: the number that fences plans: who was deposed cannot publish.
- `message.py`: a plan and its decision as messages.
- `publisher.py`: all plans of a decision at once, by compare-and-set, with their history.
"""
