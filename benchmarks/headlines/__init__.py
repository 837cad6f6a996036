"""What the sources claim, measured on isolated nodes against Storm's own schedulers (`make bench-headlines`)."""
