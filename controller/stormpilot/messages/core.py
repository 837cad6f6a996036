"""Messages of plans and snapshots: one definition per message, camelCase, read by Python and Java.

A message is JSON, gzip above 64 KiB (a load report above 1 KiB), with `schema` (int). A reader ignores unknown fields
and refuses a newer major schema aloud. `tests/contract/*.json` holds an example of each that pytest and JUnit both
read. Times `*Ms` are milliseconds since the epoch; counters are cumulative since `startMs` of the process that counted.
"""

from __future__ import annotations

import gzip
import hashlib
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from stormpilot.errors import UsageError
from stormpilot.messages.failures import check_times, failures_named
from stormpilot.messages.limits import limits_of, text_within

SCHEMA = 1
SCHEMA_FIRST = b'{"schema":'  # how messages of honest writers begin
MAX_BYTES = 900 * 1024


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the messages. `newest_schema` of its kind is what this version writes, and the newest that it reads."""

    newest_schema: ClassVar[int] = SCHEMA
    schema: int = SCHEMA


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of messages."""


# --- cluster (written by the shim on the leading Nimbus) ---------------------------------------------------------


class SupervisorPart(Part, frozen=True, kw_only=True):
    """A supervisor as Nimbus sees it; `cpu_pcore_percent` in Storm's points (100 = one core).

    `resources`: what it has beside CPU and memory, by Storm's name (`supervisor.resources.map`).
    """

    id: str
    host: str
    rack: str = "/default-rack"
    meta: dict[str, str] = {}
    ports: list[int] = []
    cpu_pcore_percent: float = 0.0
    memory_mb: float = 0.0
    resources: dict[str, float] = {}
    blacklisted: bool = False


class ShimPart(Part, frozen=True, kw_only=True):
    """Writer of the snapshot: version of the plug-in, of Storm, host of the Nimbus, its start and its last round.

    `config` holds the keys of Nimbus that say which machines belong to whom.
    """

    version: str
    storm_version: str = ""
    nimbus: str = ""
    started_at_ms: int = 0
    fallback: str = ""
    epoch_seen: int = 0
    config: dict[str, Any] = {}


class ZnodeProblem(Part, frozen=True, kw_only=True):
    """A znode (below our root) that the plug-in cannot read: a code and a sentence."""

    path: str
    reason: str = ""
    text: str = ""


class ClusterSnapshot(Message, frozen=True, kw_only=True):
    """`cluster`: written when changed. `version` counts the writes of this Nimbus."""

    version: int = 0
    written_at_ms: int
    shim: ShimPart
    supervisors: list[SupervisorPart]
    problems: list[ZnodeProblem] = []


class OwnerMessage(Message, frozen=True, kw_only=True):
    """`owner` (shim): the Storm cluster that everything below the root is of, by its `storm.zookeeper.root`.

    `nimbus` (host:port) wrote it. A plug-in of another Storm cluster writes nothing below the root.
    """

    storm_root: str
    nimbus: str = ""
    claimed_at_ms: int = 0


# --- topologies/<topology-id> (shim) --------------------------------------------------------------------------------


class InputPart(Part, frozen=True, kw_only=True):
    """A subscription; `grouping` is Storm's Thrift name in upper case, `fields` the key fields of FIELDS.

    `routed`: a grouping of ours stands in for it and follows `routes/<topology-id>`.
    """

    component: str
    stream: str = "default"
    grouping: str = "SHUFFLE"
    fields: list[str] = []
    routed: bool = False


class ComponentPart(Part, frozen=True, kw_only=True):
    """A component with what it declares; `config` holds the keys of its own configuration that matter to us."""

    id: str
    kind: Literal["spout", "bolt", "system"]
    parallelism: int = 1
    cpu_pcore_percent: float = 0.0
    memory_mb: float = 0.0
    config: dict[str, Any] = {}
    inputs: list[InputPart] = []
    streams: list[str] = []


class ExecutorPart(Part, frozen=True, kw_only=True):
    """An executor: tasks `start` to `end` of `component`; `supervisor` and `port` are null while unassigned."""

    start: int
    end: int
    component: str
    supervisor: str | None = None
    port: int | None = None


class SharedMemoryPart(Part, frozen=True, kw_only=True):
    """Memory that components share (MB): on the heap of a worker, beside it, or on a supervisor."""

    name: str
    components: list[str] = []
    on_heap_mb: float = 0.0
    off_heap_worker_mb: float = 0.0
    off_heap_node_mb: float = 0.0


class TopologySnapshot(Message, frozen=True, kw_only=True):
    """`topologies/<topology-id>`: what runs, and where since `assigned_since_ms` (this placement's first sight).

    `config` holds the keys that matter for placement and load; `shared_memory` names memory that components share,
    `shared_memories` has who shares how much.
    """

    version: int = 0
    written_at_ms: int
    id: str
    name: str
    owner: str = ""
    priority: int = 29
    workers: int
    launched_at_ms: int = 0
    assigned_since_ms: int = 0
    config: dict[str, Any] = {}
    shared_memory: list[str] = []
    shared_memories: list[SharedMemoryPart] = []
    components: list[ComponentPart]
    executors: list[ExecutorPart]


# --- plans/<topology-id> (controller), status/<topology-id> (shim) ----------------------------------------------------


class Worker(Part, frozen=True, kw_only=True):
    """One worker of a plan: a slot and the executors ([start, end] task ranges) that it holds."""

    supervisor: str
    port: int
    executors: list[tuple[int, int]]


class BasedOn(Part, frozen=True, kw_only=True):
    """Basis of a plan: the topology's snapshot, and the number of workers that it asked for (0: not told).

    The plug-in rejects a plan that was made for another number of workers than is asked for. With `rebalance_s` it is
    for what a rebalance that is on its way will make: the plug-in waits so long for that, and the plan before holds.
    """

    snapshot_version: int = 0
    workers: int = 0
    rebalance_s: int = 0
    window_from_ms: int = 0
    window_to_ms: int = 0


class Expected(Part, frozen=True, kw_only=True):
    """The metrics by name (with unit suffix) before and after, as predicted."""

    before: dict[str, float] = {}
    after: dict[str, float] = {}


class SupervisorRoom(Part, frozen=True, kw_only=True):
    """CPU and memory of some supervisors, without what topologies without a plan take there.

    A repair fills them up to `cpu_mhz` and `memory_mb`, and where nobody has that room up to `cpu_most_mhz` and
    `memory_most_mb`. 0 limits nothing.
    """

    supervisors: list[str]
    cpu_mhz: int = 0
    cpu_most_mhz: int = 0
    memory_mb: int = 0
    memory_most_mb: int = 0


class PlanRoom(Part, frozen=True, kw_only=True):
    """CPU and memory for a repair by the plug-in.

    `executors`, in the order of their start tasks: how many of them take how many MHz and MB each. With `cpu_reserved`
    what is declared as CPU (Storm's points) is a reservation too. `signature` is empty where plans are not signed.
    """

    executors: list[tuple[int, int, int]] = []
    supervisors: list[SupervisorRoom] = []
    cpu_reserved: bool = False
    signature: str = ""


class PlanMessage(Message, frozen=True, kw_only=True):
    """`plans/<topology-id>`: written by compare-and-set. Plans of one decision carry the same `planSet`.

    `reason` is the decision as a sentence, `reasonCode` its code (`stormpilot.decide.reasons`). `signature` is empty
    where plans are not signed (`signing.py`). `room` is None in plans of earlier versions.
    """

    plan_id: str
    plan_set: str
    topology_id: str
    epoch: int
    created_at_ms: int
    planner: str
    params: dict[str, Any] = {}
    seed: int = 0
    reason: str = ""
    reason_code: str = ""
    based_on: BasedOn = BasedOn()
    expected: Expected = msgspec.field(default_factory=Expected)
    plan_set_topologies: list[str] = []
    workers: list[Worker]
    room: PlanRoom | None = None
    checksum: str
    signature: str = ""

    def expected_checksum(self) -> str:
        """SHA-256 (hex) of the placement: see `plan_checksum`."""
        return plan_checksum(self.topology_id, self.plan_id, self.plan_set, self.epoch, self.workers)


def plan_checksum(topology_id: str, plan_id: str, plan_set: str, epoch: int, workers: list[Worker]) -> str:
    r"""SHA-256 (hex) over UTF-8 lines, each ended by \n.

    The lines: `stormpilot-plan-1`, topology id, plan id, plan set, epoch, then per worker
    `supervisor:port=s-e,s-e,...`; executors sorted by start, the worker lines by (supervisor, port).
    """
    lines = ["stormpilot-plan-1", topology_id, plan_id, plan_set, str(epoch)]
    for w in sorted(workers, key=lambda w: (w.supervisor, w.port)):
        lines.append(f"{w.supervisor}:{w.port}=" + ",".join(f"{s}-{e}" for s, e in sorted(w.executors)))
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


State = Literal["waiting", "moving", "applied", "rejected", "degraded", "fallback"]


class StatusMessage(Message, frozen=True, kw_only=True):
    """`status/<topology-id>`: what the shim did with the plan; `code` is an upper-case word, `text` a sentence."""

    topology_id: str
    plan_id: str | None = None
    plan_set: str | None = None
    state: State
    code: str
    text: str = ""
    since_ms: int
    written_at_ms: int
    moved_workers: int = 0
    pending_workers: int = 0


# --- plan-history/<topology-id>/<n> (controller) --------------------------------------------------------------------


class EffectPart(Part, frozen=True, kw_only=True):
    """Expected and measured gain of a move; see `MoveState` of `moves.py` for the numbers.

    `verdict` is empty and `measured` null while it is not judged yet. `nodes` are those that a `load_ratio` is about.
    """

    metric: str
    before: float
    predicted: float
    noise_ratio: float
    nodes: list[str] = msgspec.field(default_factory=list)
    measured: float | None = None
    verdict: str = ""
    text: str = ""
    judged_at_ms: int | None = None


class HistoryEntry(Message, frozen=True, kw_only=True):
    """`plan-history/<topology-id>/<n>`: a published plan with the decision that led to it.

    `move_strategy` says how it is carried out, and why so; `rollout_of` is the id of the plan of which this is a step.
    `former` is what ran before the first plan of the topology; empty for later ones. `rejected` says why the scheduler
    plug-in did not carry it out, also where it never answered.
    """

    plan: PlanMessage
    reason: str
    text: str = ""
    value: float | None = None
    threshold: float | None = None
    moved_executors: int = 0
    published_by: str = ""
    approved_by: str = ""
    effect: EffectPart | None = None
    move_strategy: str = ""
    rollout_of: str = ""
    former: list[Worker] = []
    rejected: str = ""

    @property
    def gives_up(self) -> bool:
        """Whether it is no placement: the topology gives up its plan."""
        return not self.plan.workers


# --- how messages are written and read --------------------------------------------------------------------------------

M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """JSON, gzip above the size of its kind.

    `UsageError` above what a znode holds, and above what `decode` would unpack.
    """
    name = type(message).__name__
    try:
        data = msgspec.json.encode(message)
    except UnicodeEncodeError as e:  # as of an argument that is no UTF-8
        raise UsageError(f"{name}: {e.object[:100]!r} is no text in UTF-8") from e
    limits = limits_of(type(message))
    if len(data) > limits.unpacked_bytes:
        raise UsageError(f"{name} is {len(data)} bytes unpacked, over the limit of {limits.unpacked_bytes} bytes")
    if len(data) > limits.gzip_above_bytes:
        data = gzip.compress(data, compresslevel=6, mtime=0)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} is {len(data)} bytes, over the limit of {MAX_BYTES} bytes of a znode")
    return data


def decode(data: bytes, kind: type[M], where: str) -> M:
    """Read a message within the limits of its kind; every failure is a `UsageError`.

    Its text names `where`, the field and what was expected, or the limit, or the newer schema.
    """
    with failures_named(where, kind.__name__):
        text = text_within(data, limits_of(kind))
        if not text.startswith(SCHEMA_FIRST):  # else it says its schema, and need not be parsed for that
            _check_schema(msgspec.json.decode(text, type=_Versioned).schema, kind, where)
        try:
            message = msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError:
            _check_schema(msgspec.json.decode(text, type=_Versioned).schema, kind, where)
            raise
        _check_schema(message.schema, kind, where)
        check_times(message)
        return message


def _check_schema(schema: int, kind: type[Message], where: str) -> None:
    if schema > (newest := kind.newest_schema):
        raise UsageError(
            f"{where}: schema {schema} is newer than {newest}, the newest that this version reads: upgrade it"
        )


class _Versioned(msgspec.Struct):
    schema: int
