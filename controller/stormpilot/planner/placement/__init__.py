"""A placement under construction: layouts, slots, objectives, and proofs that none exists."""
