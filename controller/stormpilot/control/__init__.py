"""The control loop: one daemon that leads, observes, decides, publishes and verifies."""
