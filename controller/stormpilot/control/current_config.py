"""The configuration in force, in one place: everything that runs longer than a cycle reads it from here."""

from __future__ import annotations

from dataclasses import dataclass

from stormpilot.config import Config


@dataclass
class CurrentConfig:
    """The configuration and the planners that it means; a reload replaces them for all who hold this object."""

    config: Config
    planner: str
    first_planner: str

    def use(self, config: Config, planner: str, first_planner: str) -> None:
        """Replace the configuration between two cycles."""
        self.config, self.planner, self.first_planner = config, planner, first_planner
