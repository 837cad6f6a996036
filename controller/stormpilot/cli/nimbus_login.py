"""The option of every command that asks Nimbus: as whom, where it asks for SASL digest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from stormpilot.logins.jaas import SaslLogin

NimbusJaasOption = Annotated[
    Path | None,
    typer.Option(
        "--nimbus-jaas",
        envvar="STORMPILOT_NIMBUS_JAAS",
        help="JAAS file whose section StormClient is the login by SASL digest.",
        show_default=False,
    ),
]


def nimbus_login(file: Path | None) -> SaslLogin | None:
    """The login in a JAAS file; None without one."""
    from stormpilot.logins.jaas import NIMBUS_SECTION, digest_login

    return None if file is None else digest_login(file, NIMBUS_SECTION, "--nimbus-jaas")
