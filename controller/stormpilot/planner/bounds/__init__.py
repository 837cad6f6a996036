"""Lower bounds and proofs: linear, semidefinite and mixed-integer relaxations, CP-SAT."""
