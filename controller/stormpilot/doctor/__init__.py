"""`stormpilot doctor`: looks at a live installation and says how to fix what it finds; changes nothing.

`evidence.py` asks ZooKeeper and Nimbus, `checks.py` judges what they said without asking anybody, `ensemble.py` speaks
with the single servers of ZooKeeper.
"""

from stormpilot.doctor.checks import examine
from stormpilot.doctor.evidence import Evidence, gather
from stormpilot.doctor.finding import Finding, Level

__all__ = ["Evidence", "Finding", "Level", "examine", "gather"]
