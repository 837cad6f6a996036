"""The configuration keys of the micro tasks, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_KEYS = {
    "rate_tps": "micro.rate.tps",
    "xml_documents": "micro.xml.documents",
    "pi_digits": "micro.pi.digits",
    "file_dir": "micro.file.dir",
    "storage": "micro.storage.connection",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a user; the field's key in the topology configuration is in `_KEYS`.

    Attributes
    ----------
    rate_tps
        Numbers per second over all tasks of the source, replays included.
    xml_documents
        Documents that are parsed for a tuple, 1,700 bytes each.
    pi_digits
        Digits that pi is computed with.
    file_dir
        Folder of the batches; empty: a new one of the system's.
    storage
        Connection string of the storage account, for blob download and table query.
    """

    rate_tps: float = 20.0
    xml_documents: int = 10
    pi_digits: int = 500
    file_dir: str = ""
    storage: str = ""

    def __post_init__(self) -> None:
        for name, least in (("rate_tps", 0.001), ("xml_documents", 1), ("pi_digits", 10)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
                raise ValueError(f"{_KEYS[name]}: expected a number of at least {least}, got {value!r}")
        for name, what in (("file_dir", "the name of a folder"), ("storage", "a connection string")):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{_KEYS[name]}: expected {what}, got {getattr(self, name)!r}")

    @classmethod
    def from_storm_conf(cls, storm_conf: Mapping[str, Any]) -> Settings:
        """Read the keys that are set; a wrong value is a ValueError that names its key."""
        found = {field.name: storm_conf.get(_KEYS[field.name]) for field in fields(cls)}
        return cls(**{name: value for name, value in found.items() if value is not None})

    def needed_storage(self) -> str:
        """Return the connection string; a ValueError that names the key where there is none."""
        if not self.storage:
            raise ValueError(f"{_KEYS['storage']}: this task needs the connection string of a storage account")
        return self.storage
