"""Settings as others may see them: of what may hold a secret only that it is set."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

from stormpilot.config.reading import describe
from stormpilot.config.sections import Config
from stormpilot.printable import without_login

SECRET = "..."
SECRET_FILES = (
    "zookeeper.auth_file",
    "zookeeper.jaas_file",
    "zookeeper.key_file",
    "publish.plan_key_file",
    "api.key_file",
    "notify.headers_file",
)
"""Settings that name files with passwords or keys; that of tokens has their hashes only."""


def described_openly(config: Config) -> dict[str, Any]:
    """Every setting by its dotted path, without tokens in addresses, logins, and hashes of passwords."""
    values = dict(describe(config))
    if url := values["notify.url"]:
        address = without_login(str(url))
        scheme, _, rest = address.partition("://")
        host = rest.partition("/")[0].partition("#")[0]
        values["notify.url"] = url if f"{scheme}://{host}" in (url, url.rstrip("/")) else f"{scheme}://{host}/{SECRET}"
    if directory := values["traffic_log.dir"]:
        values["traffic_log.dir"] = without_login(str(directory))
    scheme, _, who = str(values["zookeeper.nimbus_acl"] or "").partition(":")
    if scheme == "digest":  # with the hash of a password, without salt
        values["zookeeper.nimbus_acl"] = f"{scheme}:{who.partition(':')[0]}:{SECRET}"
    return values


def exposed_files(config: Config, file: Path) -> dict[str, str]:
    """Files with passwords or keys that every user of this machine can read, by setting.

    `file` is that of the configuration, which may hold some itself: in addresses, or the hash of one.
    Not those that are mounted read-only, as into containers: other users are not there, and whoever mounts them says
    who may read them.
    """
    values, shown = dict(describe(config)), described_openly(config)
    files = {key: str(values[key]) for key in SECRET_FILES if values[key]}
    if inline := [key for key in values if shown[key] != values[key]]:
        files[", ".join(inline)] = str(file)
    return {keys: path for keys, path in files.items() if _readable_by_all(Path(path))}


def _readable_by_all(path: Path) -> bool:
    with contextlib.suppress(OSError):
        folders = path.resolve().parents
        mounted = os.statvfs(path).f_flag & os.ST_RDONLY
        readable = path.stat().st_mode & stat.S_IROTH and all(f.stat().st_mode & stat.S_IXOTH for f in folders)
        return bool(readable and not mounted)
    return False
