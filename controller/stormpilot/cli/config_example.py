"""`stormpilot config example`: a controller.yaml to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stormpilot.errors import UsageError


def example(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it to this new file, not to stdout.")
    ] = None,
) -> None:
    """Print a controller.yaml with every setting that is not advanced, its default and its meaning."""
    from stormpilot.cli.files import check_outputs
    from stormpilot.config.example import example as made

    if output is None:
        typer.echo(made(), nl=False)
        return
    check_outputs({"--output": output})
    new = output.is_file() or not output.exists()  # else a terminal or a pipe
    try:
        with output.open("x" if new else "w", encoding="utf-8") as file:
            file.write(made())
    except FileExistsError as e:
        raise UsageError(f"{output} is there: name another file, or remove it") from e
    except OSError as e:
        raise UsageError(f"{output}: cannot write the example: {e.strerror}") from e
