"""Threads, slots and VMs of a topology for a rate, and the rate that a placement supports [S17].

    performance.py   what one slot can do with q threads of a component
    problem.py       the input file: topology, performance models, slot, VM sizes
    rates.py         how fast each component is fed
    allocation.py    threads, CPU and memory, slots: LSA and MBA
    acquisition.py   slots to VMs
    deployment.py    allocation and VMs as a planning model
    placement.py     planned by a planner, with more slots until it fits
    prediction.py    threads in slots to rate, CPU and memory
    advice.py        growing and shrinking: another size, when the rate leaves what runs
    carrying_out.py  threads of a size in the slots of a running topology
    switching.py     the same by executors on standby: which of them get tuples

Pure, as `model` and `planner` are. A *slot* here is one core and its share of the memory; CPU and memory are shares of
one slot (1.0 = all of it); rates are tuples/s.
"""
