"""A streamparse project on disk: its `config.json`, environments, topology files and sources."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from streamparse.dsl.topology import Topology, TopologyType

from stormpilot.errors import UsageError, cause
from stormpilot.nimbus import Address
from stormpilot.user_files import read_bytes, read_text


@dataclass(frozen=True)
class Environment:
    """One entry of `envs` in `config.json`; `where` names it in errors."""

    name: str
    values: dict[str, Any]
    where: str

    def nimbus(self) -> Address:
        """The address of Nimbus: `STREAMPARSE_NIMBUS` where set, else the field `nimbus`."""
        override = os.environ.get("STREAMPARSE_NIMBUS")
        if override:
            return Address.parse(override, "environment variable STREAMPARSE_NIMBUS")
        value = self.values.get("nimbus")
        if not isinstance(value, str) or not value:
            raise UsageError(f"{self.where}: nimbus is missing, expected host or host:port (or give --nimbus)")
        return Address.parse(value, f"{self.where}: nimbus")

    def mapping(self, field: str) -> dict[str, Any]:
        """A field that holds a JSON object, empty where it is absent."""
        value = self.values.get(field) or {}
        if not isinstance(value, dict):
            raise UsageError(f"{self.where}: {field} is {value!r}, expected an object")
        return value


@dataclass(frozen=True)
class Project:
    """A streamparse project: paths in `config` are relative to `directory`."""

    directory: Path
    config_file: Path
    config: dict[str, Any]

    @classmethod
    def read(cls, directory: Path, config_file: Path | None = None) -> Project:
        """Read `config.json` of the project (or another file); `UsageError` names file, line and field."""
        file = config_file or directory / "config.json"
        try:
            config = json.loads(read_text(file))
        except FileNotFoundError:
            raise UsageError(
                f"{file} not found: give the directory of a streamparse project (--project) or its config (--config)"
            ) from None
        except json.JSONDecodeError as e:
            raise UsageError(f"{file}, line {e.lineno}, column {e.colno}: not valid JSON: {e.msg}") from e
        except (OSError, ValueError, RecursionError) as e:
            raise UsageError(f"{file} cannot be read: {cause(e)}") from e
        if not isinstance(config, dict):
            raise UsageError(f"{file}: expected a JSON object")
        return cls(directory, file, config)

    @property
    def sources(self) -> Path:
        """The Python sources that go into the jar."""
        return self.directory / "src"

    def environment(self, name: str | None) -> Environment:
        """The environment of that name; without a name the only one."""
        envs = self.config.get("envs")
        if not isinstance(envs, dict) or not envs:
            raise UsageError(f"{self.config_file}: envs is missing, expected an object with an entry per environment")
        known = ", ".join(sorted(envs))
        if name is None:
            if len(envs) > 1:
                raise UsageError(f"{self.config_file}: envs has several entries ({known}): name one (-e)")
            name = next(iter(envs))
        if name not in envs:
            raise UsageError(f"{self.config_file}: envs has no entry {name!r} (it has: {known})")
        where = f"{self.config_file}: envs.{name}"
        if not isinstance(envs[name], dict):
            raise UsageError(f"{where}: expected an object")
        return Environment(name, envs[name], where)

    def topology_file(self, name: str | None) -> tuple[str, Path]:
        """Name and file of a topology; without a name the only one in `topology_specs`."""
        specs = self.config.get("topology_specs")
        if not isinstance(specs, str):
            raise UsageError(f"{self.config_file}: topology_specs is missing, expected the directory of topology files")
        directory = self.directory / specs
        files = {f.stem: f for f in sorted(directory.glob("*.py"))}
        known = ", ".join(files) or "none"
        if name is None:
            if len(files) != 1:
                raise UsageError(f"{directory} has {len(files)} topology files ({known}): name one (-n)")
            name = next(iter(files))
        if name not in files:
            raise UsageError(f"{directory / name}.py not found (topologies there: {known})")
        return name, files[name]

    def load_topology(self, file: Path) -> type[Topology]:
        """The first `Topology` class of a topology file; the file may import from `src/` and from its own folder.

        What it imports from there is forgotten afterwards, so that one process can load several projects; what is
        installed is not, though it may be in the project too (a virtualenv): much of it cannot be loaded twice.
        """
        try:
            read_bytes(file)  # what the import would wait for, or not hold in memory
        except OSError as e:
            raise UsageError(f"{file} cannot be read: {e.strerror}") from e
        with self._importable(file.parent):
            name = file.stem
            if (self.sources / name).is_dir() or (self.sources / f"{name}.py").is_file():
                name += "__topology"  # its imports mean the sources of that name
            spec = importlib.util.spec_from_file_location(name, file)
            if spec is None or spec.loader is None:
                raise UsageError(f"{file} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except (Exception, SystemExit) as e:
                raise UsageError(f"{_line(file, e)}: {type(e).__name__}: {e}") from e
        for value in vars(module).values():
            if isinstance(value, TopologyType) and value is not Topology:
                found: type[Topology] = value
                return found
        raise UsageError(f"{file} defines no class derived from streamparse.Topology")

    def load_class(self, module: str, name: str) -> type:
        """A class of the sources; `UsageError` where there is none, or its module cannot be imported."""
        with self._importable(self.sources):
            try:
                found = getattr(importlib.import_module(module), name)
            except AttributeError:
                raise UsageError(f"{self.sources}: module {module} has no {name}") from None
            except (Exception, SystemExit) as e:
                raise UsageError(f"{self.sources}: module {module} cannot be imported: {type(e).__name__}: {e}") from e
        if not isinstance(found, type):
            raise UsageError(f"{self.sources}: {module}:{name} is no class")
        return found

    @contextmanager
    def _importable(self, specs: Path) -> Iterator[None]:
        path, modules = list(sys.path), dict(sys.modules)
        folders = [str(self.sources.resolve()), str(specs.resolve())]
        sys.path += folders
        try:
            yield
        finally:
            new = [(name, module) for name, module in list(sys.modules.items()) if module is not modules.get(name)]
            # All places before anything is removed: a package without a file finds its own by path and parents.
            ours = [name for name, module in new if any(_within(place, folders) for place in _places(module))]
            sys.path[:] = path
            for name in ours:
                del sys.modules[name]
                if name in modules:
                    sys.modules[name] = modules[name]


def _places(module: ModuleType) -> list[str]:
    """The file of a module, or the folders of a package without one."""
    file = getattr(module, "__file__", None)
    return [str(file)] if file else [str(folder) for folder in getattr(module, "__path__", [])]


def _within(place: str, folders: list[str]) -> bool:
    """Whether a file is in one of the folders, and is not installed in a virtualenv there."""
    return any(place.startswith(f + os.sep) and "site-packages" not in place[len(f) :] for f in folders)


def _line(file: Path, e: BaseException) -> str:
    if isinstance(e, SyntaxError) and e.filename:
        return f"{e.filename}, line {e.lineno}"
    here = file.resolve()
    lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if Path(f.filename).resolve() == here]
    return f"{file}, line {lines[-1]}" if lines else str(file)
