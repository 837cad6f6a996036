"""The planners: one file per published method, and ours."""
