"""Reads `controller.yaml`; every error names the file, the line and the field."""

from __future__ import annotations

import contextlib
import difflib
import re
import typing
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from stormpilot.config.renamed import RENAMED
from stormpilot.config.section import Section, in_words
from stormpilot.config.sections import Config, PublishSection, ZooKeeperSection
from stormpilot.errors import UsageError, cause
from stormpilot.logins.jaas import ZOOKEEPER_SECTION, digest_login
from stormpilot.messages.signing import keys_of_file
from stormpilot.user_files import read_bytes, read_text
from stormpilot.zookeeper.login import Login, Tls, tls_context

MOST_NODES = 20_000
STORM_KEYS = ("storm.", "nimbus.", "supervisor.", "topology.", "worker.", "ui.", "drpc.", "logviewer.", "stormpilot.")
MOST_UNKNOWN = 2
"""A file with more keys on its first level, none of them a section, is no configuration with a typing error."""
UNKNOWN = "Object contains unknown field"
"""msgspec's word on what `_wrong_keys` says better."""


def load(path: Path) -> Config:
    """Read a configuration file; `UsageError` lists everything that is wrong with it."""
    return _without_problems(*read(path))


def parse(text: str, where: str, folder: Path = Path()) -> Config:
    """Read a configuration; `where` names the file in errors, relative paths start at `folder`."""
    return _without_problems(*_parse(text, where, folder))


def _without_problems(config: Config, problems: list[str]) -> Config:
    if problems:
        raise UsageError("\n".join(problems))
    return config


def read(path: Path) -> tuple[Config, list[str]]:
    """The configuration of a file, and all that is wrong with it: a section with wrong settings has its defaults.

    Raises `UsageError` for a file that is no configuration at all.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as e:
        hint = "; stormpilot config example -o FILE writes one" if isinstance(e, FileNotFoundError) else ""
        raise UsageError(f"{path}: cannot read the configuration: {cause(e)}{hint}") from e
    if not text.strip():  # as an editor or a full disk leaves it
        raise UsageError(f"{path}: is empty; a comment in it, or {{}}, stands for all defaults")
    return _parse(text, str(path), path.parent)


def _parse(text: str, where: str, folder: Path) -> tuple[Config, list[str]]:
    try:
        value, root = read_yaml(text, where)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{where}{line}: not valid YAML: {yaml_problem(e)}") from e
    except RecursionError as e:
        raise UsageError(f"{where}: nested too deeply for a configuration, which needs 4 levels") from e
    except ValueError as e:  # a number or a date that cannot be
        raise UsageError(f"{where}: not valid YAML: {e}") from e
    if root is None:
        return Config(), []
    if looks := _other_file(root):
        raise UsageError(
            f"{where}: looks like {looks}, expected the configuration of a controller, with sections such as zookeeper "
            "and decide; stormpilot config example -o FILE writes one"
        )
    lines: dict[str, int] = {}
    problems = _wrong_keys(root, Config, "", lines)
    wrong = [w for w in _wrong_values(value, Config, "") if not (w[1].startswith(UNKNOWN) and w[0] in lines)]
    config, wrong_paths = _with_absolute_paths(_usable(value), folder)
    problems += [(_line(lines, field), f"{field or '(file)'}: {text}") for field, text in wrong + wrong_paths]
    return config, [f"{where}:{line}: {text}" for line, text in sorted(problems)]


def _other_file(root: yaml.Node) -> str:
    """Kind of a file that has not one section of ours; empty: a configuration, as far as its first level tells."""
    if not isinstance(root, yaml.MappingNode):
        return ""
    keys = [str(key.value) for key, _ in root.value]
    if looks := looks_like(keys):
        return looks
    if any(key in Config.__struct_fields__ or key in RENAMED for key in keys):
        return ""
    if sum(key.startswith(STORM_KEYS) for key in keys) > len(keys) / 2:
        return "storm.yaml"
    return "another file (its first level has none of our sections)" if len(keys) > MOST_UNKNOWN else ""


def looks_like(keys: Collection[str]) -> str:
    """Kind of a file for the commands that need no cluster, by the keys of its first level; empty: none of them."""
    if "topologies" in keys:
        return "a model (model.json)" if {"supervisors", "traffic"} & set(keys) else "a plan (plan.json)"
    return "a topology to size" if {"components", "vms"} <= set(keys) else ""


def yaml_problem(error: yaml.YAMLError) -> str:
    """The problem of a YAML text in one line, without its place."""
    return getattr(error, "problem", None) or " ".join(str(error).split())


class _Loader(yaml.SafeLoader):
    """YAML as people write settings: of words only true and false are switches (not off), 1e3 is a number, 22:30 none.

    In YAML 1.1 that would be minutes and seconds, 1,350.
    """


_BOOL, _INT, _FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _INT, _FLOAT)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INT, re.compile(r"^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"^([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|[-+]?\.[0-9][0-9_]*|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver(_BOOL, re.compile("^(true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(
    _FLOAT, re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+0123456789.")
)


def read_yaml(text: str, where: str, most: int = MOST_NODES) -> tuple[Any, yaml.Node | None]:
    """The value of a text and its nodes; `UsageError` for one that aliases make too large, or endless."""
    root = yaml.compose(text, Loader=_Loader)
    if root is not None and _nodes(root, {}, most) > most:
        raise UsageError(f"{where}: more than {most} values, with what its aliases (*) repeat")
    return yaml.load(text, Loader=_Loader), root


def _nodes(node: yaml.Node, known: dict[int, int], most: int) -> int:
    """Number of values, with those that aliases repeat; one that holds itself has endlessly many."""
    if id(node) not in known:
        known[id(node)] = most + 1  # until it is known: an alias to what is not over yet
        below = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [n for pair in below for n in pair] if isinstance(node, yaml.MappingNode) else below
        known[id(node)] = min(most + 1, 1 + sum(_nodes(n, known, most) for n in parts))
    return known[id(node)]


def zookeeper_login(section: ZooKeeperSection) -> Login:
    """As whom to connect to ZooKeeper, and by TLS or not; `UsageError` names the file and setting that is wrong."""
    jaas, ca = section.jaas_file, section.ca_file
    sasl = None if jaas is None else digest_login(Path(jaas), ZOOKEEPER_SECTION, "zookeeper.jaas_file")
    tls = None
    if ca is not None:
        tls = Tls(ca, section.cert_file, section.key_file, verify_hostname=section.verify_hostname)
        tls_context(tls, "zookeeper.ca_file, .cert_file, .key_file")
    scheme, _, who = (section.nimbus_acl or "").partition(":")
    return Login(_digest(section), sasl, tls, ((scheme, who),) if who else ())


def _digest(section: ZooKeeperSection) -> str | None:
    """`user:password` of the file that `zookeeper.auth_file` names; None without one."""
    if section.auth_file is None:
        return None
    try:
        line = read_text(Path(section.auth_file)).strip()
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{section.auth_file} (zookeeper.auth_file): cannot read it: {cause(e)}") from e
    if not re.fullmatch(r"[^\s:]+:\S+", line):
        raise UsageError(f"{section.auth_file} (zookeeper.auth_file): expected one line user:password")
    return line


def plan_key(section: PublishSection) -> bytes | None:
    """Read the key that signs; None without one."""
    return next(iter(plan_keys(section)), None)


def plan_keys(section: PublishSection) -> list[bytes]:
    """Read the keys of the file that `publish.plan_key_file` names, of which the first one signs; none without one."""
    if section.plan_key_file is None:
        return []
    where = f"{section.plan_key_file} (publish.plan_key_file)"
    try:
        return keys_of_file(read_bytes(Path(section.plan_key_file)), where)
    except OSError as e:
        raise UsageError(f"{where}: cannot read it: {cause(e)}") from e


PATHS = {
    "zookeeper": ("auth_file", "jaas_file", "ca_file", "cert_file", "key_file"),
    "publish": ("plan_key_file",),
    "traffic_log": ("dir",),
    "sizing": ("files",),
    "api": ("tokens_file", "cert_file", "key_file"),
    "notify": ("headers_file",),
}
"""Settings that are paths, or name some, by section: relative ones start at the folder of the configuration file."""


def _with_absolute_paths(config: Config, folder: Path) -> tuple[Config, list[tuple[str, str]]]:
    """The configuration with whole paths, and the wrong ones as (field, text): their section has its defaults."""
    changed, wrong = {}, []
    for name, fields in PATHS.items():
        section = getattr(config, name)
        given: dict[str, str | dict[str, str]] = {}
        for f in fields:
            value = getattr(section, f)
            if isinstance(value, dict):
                wrong += [(f"{name}.{f}.{n}", text) for n, file in value.items() if (text := _no_path(file))]
                given[f] = {n: _absolute(file, folder) for n, file in value.items()}
            elif value is not None:
                wrong += [(f"{name}.{f}", text)] if (text := _no_path(value)) else []
                given[f] = _absolute(value, folder)
        usable = not any(field.startswith(f"{name}.") for field, _ in wrong)
        changed[name] = msgspec.structs.replace(section, **given) if usable else type(section)()
    return msgspec.structs.replace(config, **changed), wrong


def _no_path(value: str) -> str:
    """The reason why a text is no path; empty where it is one."""
    if not value.strip():
        return "expected a path, it is empty"
    if value.startswith("~"):
        return f"expected a path without ~, which is nobody's home here, not {value!r}"
    if value.startswith("file:") and "://" not in value:
        return f"expected a path, or file:// and a path (file:///data), not {value!r}"
    return ""


def _absolute(value: str, folder: Path) -> str:
    return value if "://" in value else str(folder / value)


def _usable(value: Any) -> Config:
    """The configuration of the sections in which nothing is wrong; the others have their defaults."""
    sections = {}
    for section in msgspec.structs.fields(Config):
        if isinstance(value, dict) and section.name in value:
            with contextlib.suppress(msgspec.ValidationError):
                sections[section.name] = msgspec.convert(value[section.name], section.type)
    return Config(**sections)


def _wrong_values(value: Any, kind: Any, field: str) -> list[tuple[str, str]]:
    """Wrong values as (field, text): of a section each setting, of a list and of names with values each value."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as e:
        found = [wrong for part in _parts(value, kind, field) for wrong in _wrong_values(*part)]
        return found or [_in_words(str(e), kind, field)]
    return []


def _parts(value: Any, kind: Any, field: str) -> list[tuple[Any, Any, str]]:
    """The parts of a value: each with its kind and its dotted path."""
    kind = kind.__origin__ if typing.get_origin(kind) is Annotated else kind
    of, around = typing.get_args(kind), f"{field}." if field else ""
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Section):
        names = {f.encode_name: f.type for f in msgspec.structs.fields(kind)}
        return [(value[name], names[name], f"{around}{name}") for name in names if name in value]
    if isinstance(value, dict) and typing.get_origin(kind) is dict:
        return [(v, of[1], f"{around}{name}") for name, v in value.items()]
    if isinstance(value, list) and typing.get_origin(kind) is list:
        return [(v, of[0], f"{field}[{i}]") for i, v in enumerate(value)]
    return []


def _wrong_keys(node: yaml.Node, kind: type[Section] | None, path: str, lines: dict[str, int]) -> list[tuple[int, str]]:
    """Unknown and repeated keys as (line, text); fills `lines` with the line of every field."""
    lines[path] = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        return []
    sections = {} if kind is None else typing.get_type_hints(kind)
    problems: list[tuple[int, str]] = []
    seen: set[str] = set()
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        field = f"{path}.{name}" if path else name
        lines[field] = line
        if name in seen:
            problems.append((line, f"{field}: given twice"))
        seen.add(name)
        if field in RENAMED:
            problems.append((line, f"{field} is now {RENAMED[field]}"))
            problems += _wrong_keys(value, None, field, lines)
            continue
        if kind is not None and name not in sections:
            near = difflib.get_close_matches(name, sections, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(sections)}"
            problems.append((line, f"{field}: unknown setting; {hint}"))
            continue
        below = sections.get(name)
        section = below if isinstance(below, type) and issubclass(below, Section) else None
        problems += _wrong_keys(value, section, field, lines)
        lines[field] = line
    return problems


def _in_words(message: str, kind: Any, field: str) -> tuple[str, str]:
    """msgspec's sentence on a value of `field`, as the dotted path of the part that is wrong and what was expected."""
    expected, _, path = message.rpartition(" - at `")
    if not expected:
        expected, path = message, ""
    of_name, _, around = path.rpartition("` in `")  # as in "key` in `$"
    if of_name:
        expected, path = f"{expected} for a name (put quotes around it)", around
    if wrong := re.fullmatch(r"Invalid enum value ('.*')", expected, re.DOTALL):
        expected = f"{wrong[1]}, expected one of {', '.join(_choices(kind))}"
    path = field + re.sub(r"\[\.\.\.\]", "", path.rstrip("`")).removeprefix("$")
    return path.removeprefix("."), in_words(expected)


def _choices(kind: Any) -> Iterator[str]:
    """The words that a value, or a part of it, may be."""
    for part in typing.get_args(kind):
        yield from [part] if typing.get_origin(kind) is Literal else _choices(part)


def _line(lines: dict[str, int], field: str) -> int:
    """Line of the field, or of the nearest section around it."""
    name = re.sub(r"\[\d+\]", "", field)
    while name and name not in lines:
        name = name.rpartition(".")[0]
    return lines.get(name, 1)


def describe(config: Config) -> list[tuple[str, Any]]:
    """Every setting as (dotted path, value)."""
    found: list[tuple[str, Any]] = []
    for section in config.__struct_fields__:
        value = getattr(config, section)
        found += [(f"{section}.{name}", getattr(value, name)) for name in value.__struct_fields__]
    return found
