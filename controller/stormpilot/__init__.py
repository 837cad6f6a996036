"""stormpilot: measured, traffic-aware placement for Apache Storm.

The packages are layers: "Repository layout" in `README.md` has the picture, each package says what lives in it.
"""

import time

STARTED_S = time.monotonic()
"""When the process began to load the package, by the monotonic clock: a budget of a whole process counts from here."""

__version__ = "0.1.0"
