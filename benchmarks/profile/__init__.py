"""Performance models of the example tasks by trial runs, and a topology sized by them (`make bench-profile`)."""
