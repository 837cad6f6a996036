"""Trial runs of a component on a real cluster: what `sizing/profiling.py` searches with [S17 5].

component.py   the trial topology source -> component -> sink, of a Python or a Java component
nodes.py       which node gets the component alone, which the rest
feeder.py      feeds a topology at a rate, and tells whether it keeps up
slot.py        what the component's slot has, and what it used
bench.py       submits and places the topology, and measures one trial
record.py      the file that an interrupted profile goes on from
output.py      the performance model as a file for `stormpilot size`, and its plot
"""
