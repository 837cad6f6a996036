"""Slots that allocations and mappings of S17 need, and the rates that they carry (`make bench-sizes`)."""
