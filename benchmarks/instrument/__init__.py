"""`make bench-instrument`: what load reporting costs per tuple, plain and reporting component side by side.

Each component runs as Storm runs it: a process of its own, fed with JSON frames over a pipe, its answers read from
another. Plain (`streamparse_run`) and reporting (`stormpilot_run`, a report every second) take turns in every round, so
that the machine's moods hit both; a pair's difference is one sample. The component itself reads its CPU clock at the
first and at the last tuple, so that the start of Python is left out.
"""
