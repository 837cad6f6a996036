"""Synthetic clusters and synthetic traffic logs with ground truth: fixtures, not beliefs."""
