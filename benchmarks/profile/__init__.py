"""Performance models of the example tasks by trial runs (`make bench-profile`)."""
