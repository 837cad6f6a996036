"""The other sections: where things are, how is measured and planned, what is kept and told; and the whole."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from msgspec import Meta, field

from stormpilot.config.deciding import BudgetSection, DecideSection, NewSupervisorsSection, OtdSection, VerifySection
from stormpilot.config.mined import HistorySection
from stormpilot.config.rollout import RolloutSection
from stormpilot.config.section import ACCESS, ADVANCED, HOST, URL, ZNODE, Ratio, Seconds, SecondsOrZero, Section
from stormpilot.zookeeper.paths import DEFAULT_ROOT


def is_loopback(host: str) -> bool:
    """Whether an address to bind is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ZooKeeperSection(Section, frozen=True, kw_only=True):
    """Where ZooKeeper is."""

    hosts: Annotated[str, Meta(min_length=1, description="where ZooKeeper is: host:port,host:port")] = "127.0.0.1:2181"
    root: Annotated[
        str,
        Meta(
            pattern=ZNODE,
            description="the znode under which everything is, as stormpilot.zookeeper.root in storm.yaml",
        ),
    ] = DEFAULT_ROOT
    session_timeout_s: Annotated[
        float, Meta(ge=2, le=120, description="a controller that is silent for so long loses the leadership")
    ] = 10.0
    auth_file: Annotated[
        str | None,
        Meta(description="a file with one line user:password (digest), the login that Storm's daemons use too"),
    ] = None
    jaas_file: Annotated[
        str | None,
        Meta(
            description="a JAAS file whose section Client is the login by SASL digest (username, password), as Storm's "
            "daemons have it; Kerberos is refused"
        ),
    ] = None
    nimbus_acl: Annotated[
        Annotated[str, Meta(pattern=ACCESS)] | None,
        Meta(
            extra=ADVANCED,
            description="where auth_file or jaas_file is a login of the controller's own: the login of Storm's daemons "
            "as an access list names it (digest:user:hash, sasl:user); they may read and remove what is written here",
        ),
    ] = None
    ca_file: Annotated[
        str | None,
        Meta(description="PEM certificates that ZooKeeper's is signed by; set: connect by TLS"),
    ] = None
    cert_file: Annotated[
        str | None, Meta(description="PEM certificate to show where ZooKeeper asks for one; needs ca_file and key_file")
    ] = None
    key_file: Annotated[str | None, Meta(description="PEM key of cert_file, without a password")] = None
    verify_hostname: Annotated[
        bool, Meta(extra=ADVANCED, description="whether ZooKeeper's certificate must be for the name in hosts")
    ] = True

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        if self.cert_file is not None and self.ca_file is None:
            raise ValueError("cert_file without ca_file: TLS is used where ca_file is set")
        if self.nimbus_acl is not None and self.auth_file is None and self.jaas_file is None:
            raise ValueError("nimbus_acl without auth_file or jaas_file: without a login everybody may write")


class CycleSection(Section, frozen=True, kw_only=True):
    """When the controller looks and decides."""

    period_s: Annotated[
        float, Meta(ge=1, le=3600, description="time between two cycles; a change in the cluster starts one at once")
    ] = 30.0
    poll_s: Annotated[
        float,
        Meta(ge=0.2, le=60, extra=ADVANCED, description="time between two readings of load reports; at most period_s"),
    ] = 2.0

    def __post_init__(self) -> None:
        if self.poll_s > self.period_s:
            raise ValueError(f"poll_s is {self.poll_s:g}, expected at most period_s ({self.period_s:g})")


CapacitySource = Literal["auto", "declared", "measured"]
CpuPolicy = Literal["auto", "measured", "declared", "larger"]


class LoadSection(Section, frozen=True, kw_only=True):
    """Rates from counters."""

    capacity: Annotated[
        CapacitySource,
        Meta(
            description="cores and memory of a supervisor. declared: those of its storm.yaml; measured: those that "
            "its tasks report; auto: measured where its storm.yaml has Storm's defaults, else declared. With the "
            "ResourceAwareScheduler as the fallback, auto takes memory as declared, and cores too where load.cpu is "
            "declared. The memory of executors that nobody declared is measured too, unless this is declared"
        ),
    ] = "auto"
    cpu: Annotated[
        CpuPolicy,
        Meta(
            description="CPU that counts for an executor. measured: what it uses, within decide.cpu_limit_ratio of a "
            "node; declared: what its owner declared, within what the supervisor declares; auto and "
            "larger: both with the ResourceAwareScheduler as the fallback, else measured, for no other scheduler keeps "
            "what is declared"
        ),
    ] = "auto"

    window_s: Annotated[float, Meta(ge=5, le=3600, description="rates are means over this time")] = 60.0
    min_coverage_ratio: Annotated[
        float,
        Meta(
            ge=0.1,
            le=1,
            extra=ADVANCED,
            description="part of a window that a task's reports must cover before it counts as measured",
        ),
    ] = 0.5
    change_window_s: Annotated[
        SecondsOrZero,
        Meta(
            description="after a step in a topology's traffic, a cycle starts and its rates are means since then, as "
            "soon as that is so long; 0: steps are not looked for"
        ),
    ] = 5.0
    settle_s: Annotated[SecondsOrZero, Meta(description="time after a change of the placement that is left out")] = 20.0
    max_report_age_s: Annotated[
        Seconds, Meta(extra=ADVANCED, description="a task that is silent for longer counts as not measured")
    ] = 30.0
    jvm_us_per_tuple: Annotated[
        float,
        Meta(
            ge=0,
            le=10_000,
            extra=ADVANCED,
            description="CPU of the JVM for a tuple in or out of an executor, for its part of what its worker's JVM "
            "used",
        ),
    ] = 3.0
    jvm_idle_cores: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            extra=ADVANCED,
            description="CPU of an executor's polling threads, for its part of what its worker's JVM used",
        ),
    ] = 0.006
    cpu_by_place: Annotated[
        bool,
        Meta(
            extra=ADVANCED,
            description="whether CPU of a worker's JVM, and of tuples by how far they go, follows the placement; "
            "false: the CPU of an executor goes with it",
        ),
    ] = True
    heap_ratio: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="with a fixed -Xmx and without the ResourceAwareScheduler as the fallback: part of a worker's "
            "heap that what lives in it may fill after a move; 0: heaps are not looked at",
        ),
    ] = 0.6


class PlannerSection(Section, frozen=True, kw_only=True):
    """Which planner, with which parameters, seed and time budget."""

    name: Annotated[str | None, Meta(description="planner for measured topologies; none: best")] = None
    first_plan: Annotated[
        str | None,
        Meta(description="planner for topologies that were never placed; none: offline, which needs no measurement"),
    ] = None
    params: Annotated[
        dict[str, float | int | str | bool | None],
        Meta(
            description="parameters of that planner (`stormpilot planners`), not of first plans: {exact_workers: true}"
        ),
    ] = field(default_factory=dict)
    owner_planners: Annotated[
        list[str],
        Meta(
            description="planners that the owner of a topology may name in its configuration (stormpilot.planner, and "
            "stormpilot.planner.params, e.g. alpha, beta, objective)"
        ),
    ] = field(default_factory=lambda: ["best", "partition", "online", "offline"])
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="same model, parameters and seed give the same plan")] = 1
    budget_s: Annotated[float, Meta(ge=0.1, le=600, description="time that one plan may take")] = 10.0
    traffic: Annotated[
        Literal["flow", "measured"],
        Meta(
            description="flow: plan and judge by what shuffles will send under a placement; measured: by measured pairs"
        ),
    ] = "flow"


class PublishSection(Section, frozen=True, kw_only=True):
    """Publishing of plans."""

    plan_key_file: Annotated[
        str | None,
        Meta(
            description="a file with a key that plans are signed with, as stormpilot.plan.key.file of Nimbus; "
            "none: plans are not signed"
        ),
    ] = None


class TrafficLogSection(Section, frozen=True, kw_only=True):
    """Where measured windows and decisions are kept."""

    dir: Annotated[
        str | None,
        Meta(
            description="folder (or file://, hdfs://, s3a://, gs://) of measured windows and decisions as Parquet; "
            "none: nothing is kept"
        ),
    ] = None
    retention_days: Annotated[float, Meta(gt=0, le=3650, description="how long windows and decisions are kept")] = 30.0
    max_mb: Annotated[
        float,
        Meta(
            ge=1,
            le=10_000_000,
            description="how much of the tables is kept; the oldest is removed first; "
            "condensed days, models of plans and the audit log come on top",
        ),
    ] = 2048.0


class ApiSection(Section, frozen=True, kw_only=True):
    """The HTTP API, its web page and metrics."""

    enabled: Annotated[
        bool, Meta(description="serve the HTTP API, its web page and metrics, in the controller's process")
    ] = True
    host: Annotated[
        str,
        Meta(
            min_length=1,
            pattern=HOST,
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
    insecure: Annotated[
        bool, Meta(extra=ADVANCED, description="allow other than loopback addresses without tokens or without TLS")
    ] = False
    allow_loopback_mutations: Annotated[
        bool, Meta(extra=ADVANCED, description="everybody on this machine may change settings without a token")
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
    "evicted",
    "rollback_impossible",
    "move_worse",
    "move_without_gain",
    "mass_failure",
    "infeasible",
    "planner_failed",
    "resources_insufficient",
    "size_proposed",
    "rollout_ended",
]


class NotifySection(Section, frozen=True, kw_only=True):
    """A receiver of events over HTTP (a webhook)."""

    url: Annotated[
        Annotated[str, Meta(pattern=URL)] | None,
        Meta(description="a webhook that gets a POST with JSON per event; none: nothing is sent"),
    ] = None
    events: Annotated[list[EventKind], Meta(description="events that are sent; empty: all")] = field(
        default_factory=list
    )
    timeout_s: Annotated[
        float, Meta(ge=0.1, le=60, extra=ADVANCED, description="timeout of the connection, and of the answer")
    ] = 5.0
    retries: Annotated[
        int, Meta(ge=0, le=20, extra=ADVANCED, description="how often an event is sent again when that failed")
    ] = 6
    backoff_s: Annotated[
        float, Meta(ge=0.01, le=60, extra=ADVANCED, description="pause before the first retry; it doubles with each")
    ] = 1.0
    headers_file: Annotated[
        str | None, Meta(description="a file with lines `Name: value` that are sent along, for secrets")
    ] = None


class LogSection(Section, frozen=True, kw_only=True):
    """The log on stderr."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="the lowest level that is logged")
    ] = "info"
    format: Annotated[
        Literal["text", "json"], Meta(description="text (event: key=value ...) or json (one object per line)")
    ] = "text"


class SizingSection(Section, frozen=True, kw_only=True):
    """Topologies whose size is watched: another one is proposed when the rate of their sources leaves it."""

    files: Annotated[
        dict[str, str],
        Meta(description="file that `stormpilot size` reads, with the performance models, by the topology's name"),
    ] = field(default_factory=dict)
    up_ratio: Annotated[
        Ratio, Meta(extra=ADVANCED, description="more is proposed above this part of the rate that is supported")
    ] = 0.9
    down_ratio: Annotated[Ratio, Meta(extra=ADVANCED, description="less is proposed below this part of it")] = 0.5
    headroom_ratio: Annotated[
        Ratio, Meta(extra=ADVANCED, description="a size is proposed for so much more than the rate")
    ] = 0.25
    after_s: Annotated[
        SecondsOrZero, Meta(description="another size is proposed once the rate was outside of the range for so long")
    ] = 300.0

    def __post_init__(self) -> None:
        if not self.down_ratio * (1 + self.headroom_ratio) < 1 < self.up_ratio * (1 + self.headroom_ratio):
            raise ValueError(
                f"down_ratio {self.down_ratio:g}, up_ratio {self.up_ratio:g}: a size with headroom_ratio "
                f"{self.headroom_ratio:g} is used to {1 / (1 + self.headroom_ratio):.2g}, expected that between them"
            )


class Config(Section, frozen=True, kw_only=True):
    """The whole of `controller.yaml`."""

    zookeeper: ZooKeeperSection = ZooKeeperSection()
    cycle: CycleSection = CycleSection()
    load: LoadSection = LoadSection()
    planner: PlannerSection = PlannerSection()
    decide: DecideSection = DecideSection()
    verify: VerifySection = VerifySection()
    new_supervisors: NewSupervisorsSection = NewSupervisorsSection()
    budget: BudgetSection = BudgetSection()
    otd: OtdSection = OtdSection()
    rollout: RolloutSection = RolloutSection()
    sizing: SizingSection = SizingSection()
    publish: PublishSection = PublishSection()
    traffic_log: TrafficLogSection = TrafficLogSection()
    history: HistorySection = HistorySection()
    api: ApiSection = ApiSection()
    notify: NotifySection = NotifySection()
    log: LogSection = LogSection()
