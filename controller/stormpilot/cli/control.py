"""Commands of the group control."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
