"""`controller.yaml` as typed values: every setting with its unit, its range and its default.

An unknown key is an error that names the nearest known one; every error names the file, the line and the field.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import typing
import zoneinfo
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from stormpilot.errors import UsageError
from stormpilot.paths import DEFAULT_ROOT

Mode = Literal["off", "advise", "act"]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]


def is_loopback(host: str) -> bool:
    """Whether an address to bind is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections."""


class ZooKeeperSection(Section, frozen=True, kw_only=True):
    """Where ZooKeeper is. `auth_file` holds one line `user:password` (digest), the one that Storm's daemons use too."""

    hosts: Annotated[str, msgspec.Meta(min_length=1)] = "127.0.0.1:2181"
    root: Annotated[str, msgspec.Meta(pattern=r"^(/[^/\s]+)+$")] = DEFAULT_ROOT
    session_timeout_s: Annotated[float, msgspec.Meta(ge=2, le=120)] = 10.0
    auth_file: str | None = None


class CycleSection(Section, frozen=True, kw_only=True):
    """`period_s` between two cycles; `poll_s` between two readings of load reports."""

    period_s: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 30.0
    poll_s: Annotated[float, msgspec.Meta(ge=0.2, le=60)] = 2.0

    def __post_init__(self) -> None:
        if self.poll_s > self.period_s:
            raise ValueError(f"poll_s is {self.poll_s:g}, expected at most period_s ({self.period_s:g})")


class LoadSection(Section, frozen=True, kw_only=True):
    """How counters become rates.

    A window is `window_s` long; a task counts as measured when its reports cover `min_coverage_ratio` of it. After a
    move the first `settle_s` are left out. A report older than `max_report_age_s` is not believed any more.
    `jvm_us_per_tuple` (in and out) and `jvm_idle_cores` are the JVM's part of an executor's CPU, unseen by Python.
    """

    window_s: Annotated[float, msgspec.Meta(ge=5, le=3600)] = 60.0
    min_coverage_ratio: Annotated[float, msgspec.Meta(ge=0.1, le=1)] = 0.5
    settle_s: SecondsOrZero = 20.0
    max_report_age_s: Seconds = 30.0
    jvm_us_per_tuple: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 3.0
    jvm_idle_cores: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.01


class PlannerSection(Section, frozen=True, kw_only=True):
    """Which planner, with which parameters, seed and time budget; `name` null means the best one that is there.

    `traffic`: plan and judge by what shuffles will send under a placement (`flow`), or by measured pairs.
    """

    name: str | None = None
    first_plan: str | None = None
    params: dict[str, float | int | str | bool | None] = {}
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 1
    budget_s: Annotated[float, msgspec.Meta(ge=0.1, le=600)] = 10.0
    traffic: Literal["flow", "measured"] = "flow"


class BlackoutWindow(Section, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A time of the week in which nothing that runs is moved.

    `days` (mon to sun; empty: every day) are those on which it begins, `from` and `to` times HH:MM of `timezone`.
    """

    days: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] = []
    from_: Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
    to: Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            zoneinfo.ZoneInfo(self.timezone)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as e:
            raise ValueError(f"timezone is {self.timezone!r}, expected a name such as UTC or Europe/Berlin") from e


class DecideSection(Section, frozen=True, kw_only=True):
    """What may be changed, and when it is worth it [A13 3.3].

    `mode` holds for topologies that `modes` does not list; `include` (empty: all) and `exclude` are shell
    patterns of names. A worker that restarts stands still for `restart_s`; what a plan saves must win that back within
    `payback_s`.

    Moves of topologies that `approve` (patterns) names wait for an operator; advice older than `approval_max_age_s`
    cannot be approved. A request that nobody led to act on is void after `request_max_age_s`. After a discarded plan, or
    a rollback, a topology stays as it is for `discard_hold_s`, `rollback_hold_s`. `owner_modes` are the modes that
    owners may set in their topology's configuration.
    """

    mode: Mode = "advise"
    modes: dict[str, Mode] = {}
    owner_modes: tuple[Mode, ...] = ("off", "advise")
    approve: list[str] = []
    approval_max_age_s: Seconds = 900.0
    request_max_age_s: Seconds = 600.0
    discard_hold_s: SecondsOrZero = 3600.0
    rollback_hold_s: SecondsOrZero = 1800.0
    include: list[str] = []
    exclude: list[str] = []
    cpu_limit_ratio: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    overload_s: SecondsOrZero = 60.0
    gain_threshold_ratio: Ratio = 0.1
    consecutive_hits: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    reschedule_timeout_s: SecondsOrZero = 180.0
    restart_s: SecondsOrZero = 15.0
    payback_s: Seconds = 300.0
    rejected_retry_s: SecondsOrZero = 30.0
    max_lost_supervisors_ratio: Ratio = 0.4
    lost_supervisor_grace_s: SecondsOrZero = 600.0
    blackouts: list[BlackoutWindow] = []


class EffectSection(Section, frozen=True, kw_only=True):
    """What happens after a move: it is measured as long as before it, per tuple processed.

    A difference below `noise_floor_ratio` of the value before (or three times the noise that was seen) is none.
    `rollback`: a move that made it worse is undone, once. A move that won less than `least_gain_ratio` of what was
    predicted, or made it worse, holds further ones for `back_off_s`, twice as long each time in a row, at most
    `max_back_off_s`. What is not applied and measured within `timeout_s` and a window is not judged.
    """

    rollback: bool = True
    noise_floor_ratio: Ratio = 0.05
    least_gain_ratio: Ratio = 0.25
    back_off_s: Seconds = 600.0
    max_back_off_s: Annotated[float, msgspec.Meta(gt=0, le=604_800)] = 21_600.0
    timeout_s: Seconds = 900.0


Limit = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]


class BudgetSection(Section, frozen=True, kw_only=True):
    """How much may be moved within an hour; null is any number. First plans and repairs are never held, but count.

    `topology_executors_per_hour` and `topology_workers_per_hour` hold for each topology, `cluster_executors_per_hour`
    and `cluster_workers_per_hour` for all together. A worker counts when it restarts.
    """

    topology_executors_per_hour: Limit | None = None
    topology_workers_per_hour: Limit | None = None
    cluster_executors_per_hour: Limit | None = None
    cluster_workers_per_hour: Limit | None = None


class RefillSection(Section, frozen=True, kw_only=True):
    """What a new or returned supervisor changes, once it has stayed for `stable_cycles`, and for `for_s` after that.

    A plan that uses it needs a gain of only `gain_threshold_ratio`; or none (at most `traffic_rise_ratio` of all tuples
    more between nodes) if the busiest node is over `busy_ratio` of its B(n) and the plan lowers that by `relief_ratio`.
    """

    enabled: bool = True
    stable_cycles: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    for_s: Seconds = 1800.0
    gain_threshold_ratio: Ratio = 0.05
    busy_ratio: Ratio = 0.5
    relief_ratio: Ratio = 0.2
    traffic_rise_ratio: Ratio = 0.1


class OtdSection(Section, frozen=True, kw_only=True):
    """`otd` as a loop of its own [N24 4]: at most one executor moves every `period_s`.

    `enabled` gives it the topologies that `include` names (patterns; empty: all); the main loop then only places,
    repairs and does what operators ask there. After a move a topology rests for `cool_down_s`, since Storm restarts
    workers. A worker is high when its node is above `cpu_high` of B(n) or more than `queue_high_tuples` wait, low when
    it is below `cpu_low` and `queue_low_tuples`; traffic alone moves an executor only for more than
    `threshold_asc_tps`.
    """

    enabled: bool = False
    include: list[str] = []
    period_s: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 5.0
    cool_down_s: SecondsOrZero = 60.0
    cpu_high: Ratio = 0.8
    cpu_low: Ratio = 0.6
    queue_high_tuples: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 10_000.0
    queue_low_tuples: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 1_000.0
    threshold_asc_tps: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.cpu_low < self.cpu_high:
            raise ValueError(f"cpu_low is {self.cpu_low:g}, expected a number above 0 and below cpu_high")
        if self.queue_low_tuples >= self.queue_high_tuples:
            raise ValueError(f"queue_low_tuples is {self.queue_low_tuples:g}, expected less than queue_high_tuples")


class TrafficLogSection(Section, frozen=True, kw_only=True):
    """Where measured windows and decisions are kept as Parquet; `dir` null keeps none."""

    dir: str | None = None
    retention_days: Annotated[float, msgspec.Meta(gt=0, le=3650)] = 30.0
    max_mb: Annotated[float, msgspec.Meta(ge=1, le=10_000_000)] = 2048.0


class ApiSection(Section, frozen=True, kw_only=True):
    """The HTTP API, its web page and metrics.

    `enabled` serves them, in the controller's own process. `host` is the address to bind; `port` 0 takes any that is
    free. `tokens_file` lists who may do what (`stormpilot token new`); without it everybody on this machine may read.
    `cert_file` is the TLS certificate with its chain (PEM). `key_file` is its private key (PEM). `insecure` allows
    other than loopback addresses without tokens or without TLS. `allow_loopback_mutations` lets everybody on this
    machine change things without a token.
    """

    enabled: bool = True
    host: Annotated[str, msgspec.Meta(min_length=1, pattern=r"^[^\s/\[\]]+$")] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8470
    tokens_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    insecure: bool = False
    allow_loopback_mutations: bool = False

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together: give both or none")
        if self.enabled and not self.insecure and not is_loopback(self.host):
            lacking = [
                name for name, value in (("tokens_file", self.tokens_file), ("cert_file", self.cert_file)) if not value
            ]
            if lacking:
                raise ValueError(
                    f"host {self.host} is open to other machines, which needs {' and '.join(lacking)} too "
                    "(or insecure: true, if something else protects it)"
                )


EventKind = Literal[
    "controller_up",
    "controller_down",
    "published",
    "rejected",
    "rollback",
    "rollback_impossible",
    "move_worse",
    "move_without_gain",
    "mass_failure",
    "infeasible",
    "planner_failed",
    "resources_lacking",
]


class NotifySection(Section, frozen=True, kw_only=True):
    """A receiver of events over HTTP (a webhook).

    `url` gets a POST with JSON per event; null sends nothing. `events` is the list of those wanted; empty: all.
    `timeout_s` is for the connection and for the answer. `retries` is how often an event is sent again when that
    failed. `backoff_s` is the pause before the first retry; it doubles with each. `headers_file` has lines
    `Name: value` that are sent along, for secrets.
    """

    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/]\S*$")] | None = None
    events: list[EventKind] = []
    timeout_s: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 5.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 6
    backoff_s: Annotated[float, msgspec.Meta(ge=0.01, le=60)] = 1.0
    headers_file: str | None = None


class LogSection(Section, frozen=True, kw_only=True):
    """The log on stderr.

    `level` is the least that is said. `format` is text (`event: key=value ...`) or json (one object per line).
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(Section, frozen=True, kw_only=True):
    """The whole of `controller.yaml`."""

    zookeeper: ZooKeeperSection = ZooKeeperSection()
    cycle: CycleSection = CycleSection()
    load: LoadSection = LoadSection()
    planner: PlannerSection = PlannerSection()
    decide: DecideSection = DecideSection()
    effect: EffectSection = EffectSection()
    refill: RefillSection = RefillSection()
    budget: BudgetSection = BudgetSection()
    otd: OtdSection = OtdSection()
    traffic_log: TrafficLogSection = TrafficLogSection()
    api: ApiSection = ApiSection()
    notify: NotifySection = NotifySection()
    log: LogSection = LogSection()


def load(path: Path) -> Config:
    """Read a configuration file; `UsageError` lists everything that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: cannot read the configuration: {getattr(e, 'strerror', None) or e}") from e
    return parse(text, str(path), path.parent)


def parse(text: str, where: str, folder: Path = Path()) -> Config:
    """Read a configuration; `where` names the file in errors, relative paths start at `folder`."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{where}{line}: not valid YAML: {getattr(e, 'problem', None) or e}") from e
    if root is None:
        return Config()
    lines: dict[str, int] = {}
    problems = _wrong_keys(root, Config, "", lines)
    if problems:
        raise UsageError("\n".join(f"{where}:{line}: {text}" for line, text in sorted(problems)))
    try:
        config = msgspec.convert(value, Config)
    except msgspec.ValidationError as e:
        expected, field = _split(str(e))
        raise UsageError(f"{where}:{_line(lines, field)}: {field}: {expected}") from e
    return _with_absolute_paths(config, folder)


def zookeeper_auth(section: ZooKeeperSection) -> str | None:
    """Read `user:password` from the file that `zookeeper.auth_file` names; None without one."""
    if section.auth_file is None:
        return None
    try:
        line = Path(section.auth_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(
            f"{section.auth_file} (zookeeper.auth_file): cannot read it: {getattr(e, 'strerror', None) or e}"
        ) from e
    if not re.fullmatch(r"[^\s:]+:\S+", line):
        raise UsageError(f"{section.auth_file} (zookeeper.auth_file): expected one line user:password")
    return line


PATHS = {
    "zookeeper": ("auth_file",),
    "traffic_log": ("dir",),
    "api": ("tokens_file", "cert_file", "key_file"),
    "notify": ("headers_file",),
}
"""Settings that are paths, by section: relative ones start at the folder of the configuration file."""


def _with_absolute_paths(config: Config, folder: Path) -> Config:
    changed = {}
    for name, fields in PATHS.items():
        section = getattr(config, name)
        given = {f: str(folder / value) for f in fields if (value := getattr(section, f)) is not None}
        changed[name] = msgspec.structs.replace(section, **given)
    return msgspec.structs.replace(config, **changed)


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


def _split(message: str) -> tuple[str, str]:
    """Take msgspec's sentence apart: what was expected, and the dotted path of the field."""
    expected, _, path = message.rpartition(" - at `")
    if not expected:
        return message, "(file)"
    field = re.sub(r"\[\.\.\.\]", "", path.rstrip("`")).removeprefix("$").removeprefix(".")
    return expected, field or "(file)"


def _line(lines: dict[str, int], field: str) -> int:
    """Line of the field, or of the nearest section around it."""
    name = re.sub(r"\[\d+\]", "", field)
    while name and name not in lines:
        name = name.rpartition(".")[0]
    return lines.get(name, 1)


def mode_of(decide: DecideSection, topology_name: str, override: Mode | None = None) -> Mode:
    """The mode of a topology: the operator's setting in ZooKeeper, else by name, else the default."""
    return override or decide.modes.get(topology_name) or decide.mode


def describe(config: Config) -> list[tuple[str, Any]]:
    """Every setting as (dotted path, value)."""
    found: list[tuple[str, Any]] = []
    for section in config.__struct_fields__:
        value = getattr(config, section)
        found += [(f"{section}.{name}", getattr(value, name)) for name in value.__struct_fields__]
    return found
