"""Notifications: a webhook is told what an operator wants to be woken for.

- `events.py`: what has happened, and what lasts, from one cycle to the next; each is told once.
- `webhook.py`: the queue, the thread and the retries, so that a receiver that is dead or slow never holds up a cycle.
"""
