"""Commands of the group submit."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
