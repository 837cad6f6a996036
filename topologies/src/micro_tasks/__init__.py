"""Tasks that load one thing each, after "Model-driven Scheduling for Distributed Stream Processing Systems" (S17), 5.2.

Each takes a number and sends one tuple on, so that they can be put in any order. `stormpilot profile` makes their
performance models.
"""
