"""stormpilot: measured, traffic-aware placement for Apache Storm."""

import time

STARTED_S = time.monotonic()
"""When the process began to load the package, by the monotonic clock: a budget of a whole process counts from here."""

__version__ = "0.1.0"
