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
from msgspec import Meta

from stormpilot.errors import UsageError
from stormpilot.paths import DEFAULT_ROOT

Mode = Literal["off", "advise", "act"]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Meta(ge=0, le=86_400)]
Ratio = Annotated[float, Meta(ge=0, le=1)]


def is_loopback(host: str) -> bool:
    """Whether an address to bind is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections."""


class ZooKeeperSection(Section, frozen=True, kw_only=True):
    """Where ZooKeeper is."""

    hosts: Annotated[str, Meta(min_length=1, description="where ZooKeeper is: host:port,host:port")] = "127.0.0.1:2181"
    root: Annotated[
        str,
        Meta(
            pattern=r"^(/[^/\s]+)+$",
            description="the znode under which everything is, as stormpilot.zookeeper.root in storm.yaml",
        ),
    ] = DEFAULT_ROOT
    session_timeout_s: Annotated[
        float, Meta(ge=2, le=120, description="a controller that is silent for so long is replaced by another")
    ] = 10.0
    auth_file: Annotated[
        str | None,
        Meta(description="a file with one line user:password (digest), the login that Storm's daemons use too"),
    ] = None


class CycleSection(Section, frozen=True, kw_only=True):
    """When the controller looks and decides."""

    period_s: Annotated[
        float, Meta(ge=1, le=3600, description="between two cycles; a change in the cluster starts one at once")
    ] = 30.0
    poll_s: Annotated[
        float, Meta(ge=0.2, le=60, description="between two readings of load reports; at most period_s")
    ] = 2.0

    def __post_init__(self) -> None:
        if self.poll_s > self.period_s:
            raise ValueError(f"poll_s is {self.poll_s:g}, expected at most period_s ({self.period_s:g})")


class LoadSection(Section, frozen=True, kw_only=True):
    """How counters become rates."""

    window_s: Annotated[float, Meta(ge=5, le=3600, description="rates are means over so long")] = 60.0
    min_coverage_ratio: Annotated[
        float,
        Meta(
            ge=0.1, le=1, description="part of a window that a task's reports must cover before it counts as measured"
        ),
    ] = 0.5
    settle_s: Annotated[SecondsOrZero, Meta(description="after a change of the placement so much is left out")] = 20.0
    max_report_age_s: Annotated[Seconds, Meta(description="a task that is silent for longer is not measured")] = 30.0
    jvm_us_per_tuple: Annotated[
        float,
        Meta(ge=0, le=10_000, description="CPU of the JVM for a tuple in or out of an executor, unseen by Python"),
    ] = 3.0
    jvm_idle_cores: Annotated[
        float, Meta(ge=0, le=1, description="CPU of an executor's polling threads, unseen by Python")
    ] = 0.01


class PlannerSection(Section, frozen=True, kw_only=True):
    """Which planner, with which parameters, seed and time budget."""

    name: Annotated[str | None, Meta(description="planner for what runs; none: the best that is there")] = None
    first_plan: Annotated[
        str | None, Meta(description="planner for what was never placed; none: the best that needs no measurement")
    ] = None
    params: Annotated[
        dict[str, float | int | str | bool | None],
        Meta(description="parameters of the planner by name (`stormpilot planners`)"),
    ] = {}
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="same model, parameters and seed give the same plan")] = 1
    budget_s: Annotated[float, Meta(ge=0.1, le=600, description="time that one plan may take")] = 10.0
    traffic: Annotated[
        Literal["flow", "measured"],
        Meta(
            description="flow: plan and judge by what shuffles will send under a placement; measured: by measured pairs"
        ),
    ] = "flow"


class BlackoutWindow(Section, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A time of the week in which nothing that runs is moved."""

    days: Annotated[
        list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]],
        Meta(description="days on which it begins; empty: every day"),
    ] = []
    from_: Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="when it begins, HH:MM")]
    to: Annotated[
        str,
        Meta(
            pattern=r"^([01]\d|2[0-3]):[0-5]\d$",
            description="when it ends, HH:MM; on the next day when that is earlier",
        ),
    ]
    timezone: Annotated[str, Meta(description="of both times, e.g. Europe/Berlin")] = "UTC"

    def __post_init__(self) -> None:
        try:
            zoneinfo.ZoneInfo(self.timezone)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as e:
            raise ValueError(f"timezone is {self.timezone!r}, expected a name such as UTC or Europe/Berlin") from e


class DecideSection(Section, frozen=True, kw_only=True):
    """What may be changed, and when it is worth it [A13 3.3]."""

    mode: Annotated[
        Mode, Meta(description="off, advise (say what would be done) or act, for topologies that modes does not list")
    ] = "advise"
    modes: Annotated[
        dict[str, Mode], Meta(description="mode by name of the topology; `stormpilot mode` overrides it")
    ] = {}
    owner_modes: Annotated[
        tuple[Mode, ...],
        Meta(description="modes that owners may set in their topology's configuration (stormpilot.mode)"),
    ] = ("off", "advise")
    approve: Annotated[
        list[str], Meta(description="shell patterns of topology names: their moves wait for `stormpilot approve`")
    ] = []
    approval_max_age_s: Annotated[Seconds, Meta(description="older advice cannot be approved; it is made anew")] = 900.0
    request_max_age_s: Annotated[
        Seconds, Meta(description="a request that no leader acted on is void after so long")
    ] = 600.0
    discard_hold_s: Annotated[
        SecondsOrZero, Meta(description="after `stormpilot discard` the topology is left alone for so long")
    ] = 3600.0
    rollback_hold_s: Annotated[
        SecondsOrZero, Meta(description="after `stormpilot rollback` the topology is left alone for so long")
    ] = 1800.0
    include: Annotated[
        list[str], Meta(description="shell patterns of topology names that are cared for; empty: all")
    ] = []
    exclude: Annotated[list[str], Meta(description="shell patterns of topology names that are left alone")] = []
    cpu_limit_ratio: Annotated[
        float, Meta(gt=0, le=1, description="B(n): part of a node's CPU that planning may fill")
    ] = 0.8
    overload_s: Annotated[
        SecondsOrZero,
        Meta(description="X(n): a node may be over B(n) for so long before that alone is a reason to move"),
    ] = 60.0
    gain_threshold_ratio: Annotated[
        Ratio, Meta(description="R: inter-node traffic must fall by at least this part of itself")
    ] = 0.1
    consecutive_hits: Annotated[int, Meta(ge=1, le=100, description="cycles in a row in which a gain must show")] = 2
    reschedule_timeout_s: Annotated[SecondsOrZero, Meta(description="cool-down of a topology after a plan")] = 180.0
    restart_s: Annotated[
        SecondsOrZero, Meta(description="a worker that restarts stands still for so long, until that was measured")
    ] = 15.0
    payback_s: Annotated[
        Seconds, Meta(description="tuples saved between nodes in this time must outnumber those that restarts hold up")
    ] = 300.0
    rejected_retry_s: Annotated[
        SecondsOrZero, Meta(description="wait after a plan that the scheduler plug-in refused")
    ] = 30.0
    max_lost_supervisors_ratio: Annotated[
        Ratio, Meta(description="with this part of the supervisors gone, or more, nothing is done")
    ] = 0.4
    lost_supervisor_grace_s: Annotated[
        SecondsOrZero, Meta(description="after so long a lost supervisor is given up")
    ] = 600.0
    blackouts: Annotated[
        list[BlackoutWindow],
        Meta(description="times of the week in which nothing that runs is moved: days, from, to, timezone"),
    ] = []


class EffectSection(Section, frozen=True, kw_only=True):
    """What happens after a move: it is measured as long as before it, per tuple processed."""

    rollback: Annotated[bool, Meta(description="a move that made it worse is undone, once")] = True
    noise_floor_ratio: Annotated[
        Ratio,
        Meta(
            description="what changes by less than this part of itself (or three times the noise seen) did not change"
        ),
    ] = 0.05
    least_gain_ratio: Annotated[
        Ratio, Meta(description="a move that won less than this part of what was predicted did not help")
    ] = 0.25
    back_off_s: Annotated[
        Seconds,
        Meta(description="after a move that did not help nothing else is tried for so long; twice as long each time"),
    ] = 600.0
    max_back_off_s: Annotated[float, Meta(gt=0, le=604_800, description="the longest such wait")] = 21_600.0
    timeout_s: Annotated[
        Seconds, Meta(description="what is not applied and measured within this and a window is not judged")
    ] = 900.0


Limit = Annotated[int, Meta(ge=0, le=10_000_000)]


class BudgetSection(Section, frozen=True, kw_only=True):
    """How much may be moved within an hour. First plans and repairs are never held, but count."""

    topology_executors_per_hour: Annotated[
        Limit | None, Meta(description="executors of one topology that may move; none: any number")
    ] = None
    topology_workers_per_hour: Annotated[
        Limit | None, Meta(description="workers of one topology that may restart; none: any number")
    ] = None
    cluster_executors_per_hour: Annotated[
        Limit | None, Meta(description="executors of all topologies that may move; none: any number")
    ] = None
    cluster_workers_per_hour: Annotated[
        Limit | None, Meta(description="workers of all topologies that may restart; none: any number")
    ] = None


class RefillSection(Section, frozen=True, kw_only=True):
    """What a new or returned supervisor changes, once it has stayed."""

    enabled: Annotated[bool, Meta(description="use supervisors that are new or came back")] = True
    stable_cycles: Annotated[int, Meta(ge=1, le=1000, description="periods that they must have stayed")] = 3
    for_s: Annotated[Seconds, Meta(description="how long after that they count as new")] = 1800.0
    gain_threshold_ratio: Annotated[
        Ratio, Meta(description="instead of decide.gain_threshold_ratio, for a plan that uses them")
    ] = 0.05
    busy_ratio: Annotated[
        Ratio, Meta(description="no gain is needed when the busiest node is filled to this part of B(n) or more")
    ] = 0.5
    relief_ratio: Annotated[Ratio, Meta(description="and the plan lowers that by this part of it")] = 0.2
    traffic_rise_ratio: Annotated[Ratio, Meta(description="for at most this part of all tuples more between nodes")] = (
        0.1
    )


class OtdSection(Section, frozen=True, kw_only=True):
    """`otd` as a loop of its own [N24 4]: at most one executor moves at a time."""

    enabled: Annotated[
        bool,
        Meta(
            description="move one executor at a time, in a loop of its own; the main one only places and repairs there"
        ),
    ] = False
    include: Annotated[list[str], Meta(description="shell patterns of the topologies that it has; empty: all")] = []
    period_s: Annotated[float, Meta(ge=1, le=3600, description="between two steps, each of at most one executor")] = 5.0
    cool_down_s: Annotated[
        SecondsOrZero, Meta(description="a topology rests for so long after a move, since Storm restarts workers")
    ] = 60.0
    cpu_high: Annotated[Ratio, Meta(description="a worker is high when its node is above this part of B(n)")] = 0.8
    cpu_low: Annotated[
        Ratio, Meta(description="a worker is low when its node is below this part of B(n) and its queue is low")
    ] = 0.6
    queue_high_tuples: Annotated[
        float, Meta(ge=0, le=1e12, description="a worker is high, too, when more tuples wait")
    ] = 10_000.0
    queue_low_tuples: Annotated[
        float, Meta(ge=0, le=1e12, description="fewer waiting tuples than this are a low queue")
    ] = 1_000.0
    threshold_asc_tps: Annotated[
        float,
        Meta(
            ge=0,
            le=1e12,
            description="for traffic alone an executor moves only when more than this is saved between nodes",
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.cpu_low < self.cpu_high:
            raise ValueError(f"cpu_low is {self.cpu_low:g}, expected a number above 0 and below cpu_high")
        if self.queue_low_tuples >= self.queue_high_tuples:
            raise ValueError(f"queue_low_tuples is {self.queue_low_tuples:g}, expected less than queue_high_tuples")


class TrafficLogSection(Section, frozen=True, kw_only=True):
    """Where measured windows and decisions are kept."""

    dir: Annotated[
        str | None, Meta(description="folder of measured windows and decisions as Parquet; none: nothing is kept")
    ] = None
    retention_days: Annotated[float, Meta(gt=0, le=3650, description="how long they are kept")] = 30.0
    max_mb: Annotated[float, Meta(ge=1, le=10_000_000, description="how much is kept; the oldest goes first")] = 2048.0


class ApiSection(Section, frozen=True, kw_only=True):
    """The HTTP API, its web page and metrics."""

    enabled: Annotated[
        bool, Meta(description="serve the HTTP API, its web page and metrics, in the controller's process")
    ] = True
    host: Annotated[
        str,
        Meta(
            min_length=1,
            pattern=r"^[^\s/\[\]]+$",
            description="address to bind; another than loopback needs tokens_file, cert_file and key_file",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="port to bind; 0: any that is free")] = 8470
    tokens_file: Annotated[
        str | None,
        Meta(description="who may do what (`stormpilot token new`); none: everybody on this machine may read"),
    ] = None
    cert_file: Annotated[str | None, Meta(description="TLS: certificate with its chain (PEM)")] = None
    key_file: Annotated[str | None, Meta(description="TLS: its private key (PEM)")] = None
    insecure: Annotated[bool, Meta(description="allow other than loopback addresses without tokens or without TLS")] = (
        False
    )
    allow_loopback_mutations: Annotated[
        bool, Meta(description="everybody on this machine may change things without a token")
    ] = False

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
    """A receiver of events over HTTP (a webhook)."""

    url: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^\s/]\S*$")] | None,
        Meta(description="a webhook that gets a POST with JSON per event; none: nothing is sent"),
    ] = None
    events: Annotated[list[EventKind], Meta(description="those wanted; empty: all")] = []
    timeout_s: Annotated[float, Meta(ge=0.1, le=60, description="for the connection, and for the answer")] = 5.0
    retries: Annotated[int, Meta(ge=0, le=20, description="how often an event is sent again when that failed")] = 6
    backoff_s: Annotated[
        float, Meta(ge=0.01, le=60, description="pause before the first retry; it doubles with each")
    ] = 1.0
    headers_file: Annotated[
        str | None, Meta(description="a file with lines `Name: value` that are sent along, for secrets")
    ] = None


class LogSection(Section, frozen=True, kw_only=True):
    """The log on stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="the least that is said")] = "info"
    format: Annotated[
        Literal["text", "json"], Meta(description="text (event: key=value ...) or json (one object per line)")
    ] = "text"


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
