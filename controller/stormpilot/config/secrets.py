"""Settings as others may see them: of what may hold a secret only that it is set."""

from __future__ import annotations

from typing import Any

from stormpilot.config.reading import describe
from stormpilot.config.sections import Config
from stormpilot.printable import without_login

SECRET = "..."


def described_openly(config: Config) -> dict[str, Any]:
    """Every setting by its dotted path, without tokens in addresses, logins, and hashes of passwords."""
    values = dict(describe(config))
    if url := values["notify.url"]:
        scheme, _, rest = without_login(str(url)).partition("://")
        values["notify.url"] = f"{scheme}://{rest.partition('/')[0]}/{SECRET}"
    if directory := values["traffic_log.dir"]:
        values["traffic_log.dir"] = without_login(str(directory))
    scheme, _, who = str(values["zookeeper.nimbus_acl"] or "").partition(":")
    if scheme == "digest":  # with the hash of a password, without salt
        values["zookeeper.nimbus_acl"] = f"{scheme}:{who.partition(':')[0]}:{SECRET}"
    return values
