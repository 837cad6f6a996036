"""Hand-written doubles and builders that several test folders share."""
