"""Simulated annealing on measured pairs: state, proposals, moves, and the compiled kernel."""
