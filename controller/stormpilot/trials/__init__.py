"""Trial runs of a component on a real cluster: what `sizing/profiling.py` searches with [S17 5].

component.py   the trial topology source -> component -> sink, of a Python or a Java component
nodes.py       which node gets the component alone, which the rest
bench.py       submits, places and feeds the topology, and measures one trial
record.py      the file that an interrupted profile goes on from
output.py      the performance model as a file for `stormpilot size`, and its plot
"""
