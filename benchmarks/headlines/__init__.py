"""Claims of the sources, measured on isolated nodes against Storm's own schedulers (`make bench-headlines`)."""
