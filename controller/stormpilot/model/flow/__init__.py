"""Traffic as a function of the placement: what shuffles will send where, compiled for searches."""
