"""Lower bounds and proofs: linear and semidefinite relaxations, CP-SAT."""
