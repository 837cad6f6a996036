"""`make bench-instrument`: what load reporting costs per tuple, plain and reporting component side by side.

Each component runs as Storm runs it: a process of its own, fed with JSON frames over a pipe, its answers read from
another. A plain one (`streamparse_run`) and a reporting one (`stormpilot_run`, a report every second) are fed the same
slices of tuples in turn, so that the machine's moods hit both; a pair of slices is one sample. The component itself
reads its CPU clock at the end of each slice, so that the start of Python and the wait for us are left out.
"""
