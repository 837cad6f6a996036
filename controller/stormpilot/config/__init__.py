"""`controller.yaml` as typed values: every setting with its unit, its range and its default.

An unknown key is an error that names the nearest known one; every error names the file, the line and the field.

- `sections.py`: the whole, and the sections but those about moves; `deciding.py`: those about moves.
- `mined.py`: the section about thresholds from history.
- `section.py`: what sections are made of.
- `reading.py`: from a file to values; `secrets.py`: values as others may see them.
"""

from stormpilot.config.deciding import (
    BlackoutWindow,
    BudgetSection,
    DecideSection,
    NewSupervisorsSection,
    VerifySection,
)
from stormpilot.config.mined import HistorySection
from stormpilot.config.reading import describe, load, parse, plan_key, plan_keys, read, zookeeper_login
from stormpilot.config.sections import (
    ApiSection,
    Config,
    CycleSection,
    EventKind,
    LoadSection,
    NotifySection,
    PlannerSection,
    PublishSection,
    SizingSection,
    ZooKeeperSection,
    is_loopback,
)

__all__ = [
    "ApiSection",
    "BlackoutWindow",
    "BudgetSection",
    "Config",
    "CycleSection",
    "DecideSection",
    "EventKind",
    "HistorySection",
    "LoadSection",
    "NewSupervisorsSection",
    "NotifySection",
    "PlannerSection",
    "PublishSection",
    "SizingSection",
    "VerifySection",
    "ZooKeeperSection",
    "describe",
    "is_loopback",
    "load",
    "parse",
    "plan_key",
    "plan_keys",
    "read",
    "zookeeper_login",
]
