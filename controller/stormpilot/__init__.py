"""stormpilot: measured, traffic-aware placement for Apache Storm."""

__version__ = "0.1.0"
