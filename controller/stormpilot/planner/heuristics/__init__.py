"""Parts that several planners share: greedy placement, best fit, label propagation, graphs of components."""
