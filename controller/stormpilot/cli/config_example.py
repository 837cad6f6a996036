"""`stormpilot config example`: a controller.yaml to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stormpilot.errors import UsageError


def example(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it to this file, not to stdout.")] = None,
) -> None:
    """Print a controller.yaml with every setting that is not advanced, its default and its meaning."""
    from stormpilot.config.example import example as made

    if output is None:
        typer.echo(made(), nl=False)
        return
    try:
        output.write_text(made(), encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{output}: cannot write the example: {e.strerror}") from e
