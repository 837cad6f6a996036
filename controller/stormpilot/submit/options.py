"""Topology options from their three sources, with the precedence and the defaults of `sparse submit`.

Command line over `Topology.config` over `options` of the environment; then the worker hosts give the number of workers
and ackers where nobody did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stormpilot.errors import UsageError, cause
from stormpilot.submit.project import Environment
from stormpilot.user_files import read_text

_VIRTUALENV_OPTIONS = ("install_virtualenv", "use_virtualenv", "virtualenv_flags", "virtualenv_root", "virtualenv_name")


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """`key=value` texts, each value read as YAML (`true`, `3`, `[a, b]`), as `sparse submit -o` reads them."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"option {text!r}: expected key=value")
        try:
            options[key] = _yaml(value)
        except YAMLError as e:
            raise UsageError(f"option {key}: {value!r} is not a YAML value: {_first_line(e)}") from e
    return options


def read_options(file: Path) -> dict[str, Any]:
    """A YAML or JSON file that maps option names to values."""
    try:
        options = _yaml(read_text(file))
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{file} cannot be read: {cause(e)}") from e
    except YAMLError as e:
        raise UsageError(f"{file}: not valid YAML: {_first_line(e)}") from e
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(isinstance(k, str) for k in options):
        raise UsageError(f"{file}: expected a mapping of option names to values")
    return options


def resolve_options(
    given: Mapping[str, Any],
    topology_config: Mapping[str, Any],
    environment: Environment,
    submitted_name: str,
    storm_workers: Callable[[], list[str]],
) -> dict[str, Any]:
    """The topology's configuration for Storm.

    Parameters
    ----------
    given
        The command line's options.
    topology_config
        `config` of the Topology class.
    submitted_name
        The name that the topology runs under.
    storm_workers
        Asks Nimbus for the hosts of its supervisors; called only where neither options nor environment list them.
    """
    values = environment.values
    options: dict[str, Any] = dict(environment.mapping("options"))
    if values.get("use_virtualenv", True) and values.get("virtualenv_root"):
        options["topology.python.path"] = f"{values['virtualenv_root']}/{submitted_name}/bin/python"
    options.update(_log_options(environment))
    options.update({name: values[name] for name in _VIRTUALENV_OPTIONS if name in values})
    options["sudo_user"] = values.get("user")
    options.update(topology_config)
    options.update(given)
    if options.get("topology.debug"):
        options["pystorm.log.level"] = "debug"

    hosts = options.get("storm.workers.list") or values.get("workers") or storm_workers()
    options["storm.workers.list"] = hosts.split(",") if isinstance(hosts, str) else list(hosts)
    for key, value in options.items():
        _check_json(key, value)
    for count in ("topology.acker.executors", "topology.workers"):
        if options.get(count) is None:
            options[count] = len(options["storm.workers.list"])
    return options


def _log_options(environment: Environment) -> dict[str, Any]:
    log, values = environment.mapping("log"), environment.values
    found = {
        "pystorm.log.path": log.get("path") or values.get("log_path"),
        "pystorm.log.file": log.get("file") or values.get("log_file"),
        "pystorm.log.max_bytes": log["max_bytes"] if isinstance(log.get("max_bytes"), int) else None,
        "pystorm.log.backup_count": log["backup_count"] if isinstance(log.get("backup_count"), int) else None,
        "pystorm.log.level": log["level"].lower() if isinstance(log.get("level"), str) else None,
    }
    return {k: v for k, v in found.items() if v is not None and v != ""}


def _check_json(key: str, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as e:
        raise UsageError(f"option {key}: {value!r} has no form in JSON, which Storm reads: {e}") from e


def _yaml(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _first_line(e: YAMLError) -> str:
    return " ".join(str(e).split())
