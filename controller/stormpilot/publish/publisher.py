"""Writes the plans of one decision: all of them or none, only while we lead, only over what we have read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import structlog

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import EffectPart, HistoryEntry, Message, PlanMessage, decode, encode
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import whole_plans
from stormpilot.messages.signing import signed, signed_by
from stormpilot.publish.epoch import Epoch
from stormpilot.zookeeper.client import ConflictError, DeniedError, HasChildrenError, ZooKeeper
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Append, Put, Step, TooLargeError, check_size, size_of

log = structlog.get_logger(__name__)

KEPT_PLANS = 20
"""Number of whole plans of a topology in `plan-history/`; as many others are kept beside them: steps of rollouts, and
plans that were rejected."""
HISTORY_NUMBER = re.compile("0[0-9]{9}")
"""Names of plans in a history, with ten digits, of which none needs the first; anybody may have put others beside."""
MOST_PLANS_APART = 1_000_000
"""So many plans of one topology are never made between two that are in its history."""
NOT_OURS = (ConflictError, DeniedError, HasChildrenError, TooLargeError)
"""Errors of a znode that somebody else wrote, wrote below or locked, or that is too large: they cost what is written
there, and nothing else."""
TRANSACTION_BYTES = 900 * 1024
"""Size limit of one request to ZooKeeper (its limit is 1 MiB)."""


def _next_number(kept: Iterable[str]) -> int:
    """The number of the next plan of a history; a name far beyond the others is none of ours."""
    newest = 0
    for number in sorted(int(k) for k in kept if HISTORY_NUMBER.fullmatch(k)):
        if number - newest > MOST_PLANS_APART:
            break
        newest = number
    return newest + 1


class DeposedError(RefusedError):
    """Another controller leads: the epoch was raised after ours."""


def _for_history(entry: HistoryEntry, beside_bytes: int) -> bytes:
    """The entry as written; without what ran before, if it would not fit into one transaction with `beside_bytes`."""
    if entry.former:
        with contextlib.suppress(UsageError):  # it is too large for a znode
            data = encode(entry)
            if len(data) + beside_bytes <= TRANSACTION_BYTES:
                return data
        entry = msgspec.structs.replace(entry, former=[])
    return encode(entry)


def _with_former(move: MoveState, beside_bytes: int) -> bytes:
    """The move as written; without what it left, if it would not fit beside its plan: then it cannot be undone."""
    with contextlib.suppress(UsageError):
        data = encode(move)
        if not move.former or len(data) + beside_bytes <= TRANSACTION_BYTES:
            return data
    return encode(msgspec.structs.replace(move, former=[]))


def _bytes(steps: Iterable[Step]) -> int:
    return sum(len(s.data) for s in steps if isinstance(s, Put | Append))


class Publisher:
    """Publishes in the name of one epoch; with a `key`, plans are signed, those of `former_keys` anew (`sign_anew`)."""

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, epoch: Epoch, key: bytes | None = None, *former_keys: bytes):
        self._zookeeper = zookeeper
        self._key = key
        self.former_keys = former_keys
        self.paths = paths
        self.epoch = epoch
        self._made_ms: dict[str, int] = {}

    def publish(
        self,
        entries: Sequence[HistoryEntry],
        versions: Mapping[str, int],
        moves: Sequence[MoveState] = (),
        also: Mapping[str, Sequence[Step]] | None = None,
    ) -> None:
        """Write the plans of one plan set and their history.

        A set that is too large for one transaction goes in several; the plug-in waits until it has the whole set. The
        history of a plan that is too large beside the plan itself follows it.

        Parameters
        ----------
        entries
            One per topology.
        versions
            Version of `plans/<id>` as it was read, per topology id; none where there was no such znode.
        moves
            What is to be followed of these plans, written with them: whoever leads next goes on with it.
        also
            By topology id, what else goes in the transaction that publishes its plan.

        Raises
        ------
        DeposedError
            Another controller raised the epoch: nothing (more) was written.
        ConflictError
            Somebody else changed a plan after it was read.
        DeniedError
            The access list of a znode of these topologies does not let us.
        HasChildrenError
            Somebody else wrote below a znode that is removed with a plan.
        TooLargeError
            A plan is too large for ZooKeeper: nothing was written.
        """
        p = self.paths
        beside = {m.topology_id: m for m in moves}
        self._zookeeper.ensure(
            [
                p.plan(),
                p.audit(),
                p.hold(),
                p.rollout(),
                p.routes(),
                *([p.moves()] if moves else []),
                *(p.plan_history(e.plan.topology_id) for e in entries),
            ]
        )
        numbers = self._zookeeper.children([p.plan_history(e.plan.topology_id) for e in entries])
        moves_read = self._zookeeper.read([p.moves(t) for t in beside], keep_denied=True)
        followed = dict(zip(beside, moves_read, strict=True))
        transactions: list[list[Step]] = [[]]
        size = 0
        for entry, kept in zip(entries, numbers, strict=True):
            t = entry.plan.topology_id
            n = _next_number(kept)
            node = followed.get(t)
            for steps in self._steps_of(
                entry,
                p.plan_history(t, f"{n:010d}"),
                versions.get(t),
                beside.get(t),
                None if node is None else node.version,
                (also or {}).get(t, ()),
            ):
                more = size_of(steps)
                if transactions[-1] and size + more > TRANSACTION_BYTES:
                    transactions.append([])
                    size = 0
                transactions[-1] += steps
                size += more
        for steps in transactions:
            check_size([*self.epoch.checks, *steps])
        for steps in transactions:
            self._commit(steps)
        for entry, kept in zip(entries, numbers, strict=True):
            if len(kept) >= KEPT_PLANS:
                try:
                    self._prune(entry.plan.topology_id)
                except RefusedError as e:  # the plan is published all the same
                    log.warning("the history of plans cannot be shortened", topology=entry.plan.topology_id, why=e)

    def _steps_of(
        self,
        entry: HistoryEntry,
        history: str,
        version: int | None,
        move: MoveState | None,
        move_version: int | None,
        also: Sequence[Step],
    ) -> list[list[Step]]:
        """Writes that publish one plan: one transaction, or one for its history apart."""
        p, t = self.paths, entry.plan.topology_id
        try:
            plan = Put(p.plan(t), encode(signed(entry.plan, self._key)), version)
            moves = [] if move is None else [Put(p.moves(t), _with_former(move, len(plan.data)), move_version)]
            own: list[Step] = [plan, *moves]
            told = Put(history, _for_history(entry, _bytes(own)), None)
        except UsageError as e:
            raise TooLargeError(p.plan(t), str(e)) from e
        if _bytes([*own, told, *also]) <= TRANSACTION_BYTES:
            return [[plan, told, *moves, *also]]
        return [[*own, *also], [told]]

    def take_over(self, plans: Iterable[tuple[PlanMessage, int]]) -> None:
        """Give these plans of the leader before, with the versions of their znodes, our epoch: a plan set whole or not.

        What that leader has not signed, or somebody changed, stays as it is.
        """
        plan_sets: dict[str, list[Step]] = {}
        keys = [] if self._key is None else [self._key, *self.former_keys]
        for plan, version in plans:
            own = plan.epoch < self.epoch.number and plan.checksum == plan.expected_checksum()
            if own and (not keys or any(signed_by(plan, key) for key in keys)):
                ours = msgspec.structs.replace(plan, epoch=self.epoch.number)
                ours = msgspec.structs.replace(ours, checksum=ours.expected_checksum())
                put = Put(self.paths.plan(plan.topology_id), encode(signed(ours, self._key)), version)
                plan_sets.setdefault(plan.plan_set, []).append(put)
        for plan_set, steps in plan_sets.items():
            try:
                self.write(steps)
            except NOT_OURS as e:
                log.warning("plans of the leader before are not taken over", plan_set=plan_set, why=e)
            else:
                log.info("plans of the leader before are taken over", plan_set=plan_set, plans=len(steps))

    def sign_anew(self, plans: Iterable[tuple[PlanMessage, int]]) -> None:
        """Sign plans in force by the key, where a former one has signed them; what nobody has signed stays so.

        `plans` with the versions of their znodes.
        """
        for plan, version in plans:
            if self._key is None or signed_by(plan, self._key):
                continue
            if any(signed_by(plan, key) for key in self.former_keys):
                try:
                    self.write([Put(self.paths.plan(plan.topology_id), encode(signed(plan, self._key)), version)])
                except NOT_OURS as e:
                    log.warning("a plan is not signed by the new key", topology=plan.topology_id, why=e)
                else:
                    log.info("plan signed by the new key", topology=plan.topology_id, plan=plan.plan_id)

    def proposal(self, topology_id: str, now_ms: int | None = None) -> tuple[HistoryEntry | None, int | None]:
        """The proposal of a topology (None where there is none, or it cannot be read) and the version of its znode.

        With `now_ms` its time is that of `by_our_clock`.
        """
        path = self.paths.proposal(topology_id)
        (node,) = self._zookeeper.read([path], keep_denied=True)
        if node is None:
            return None, None
        try:
            entry = decode(node.data, HistoryEntry, path)
        except UsageError:
            return None, node.version
        return entry if now_ms is None else self.by_our_clock(entry, now_ms), node.version

    def by_our_clock(self, entry: HistoryEntry, now_ms: int) -> HistoryEntry:
        """The proposal, made when it was first read if it seems to be from the future: a clock was set back."""
        plan_id, made_ms = entry.plan.plan_id, entry.plan.created_at_ms
        if made_ms > now_ms:
            self._made_ms.setdefault(plan_id, now_ms)
        made_ms = min(made_ms, self._made_ms.get(plan_id, made_ms))
        return msgspec.structs.replace(entry, plan=msgspec.structs.replace(entry.plan, created_at_ms=made_ms))

    def write(self, steps: Sequence[Step]) -> None:
        """Do these steps, all or none, only while we lead."""
        self._ensure_folders()
        self._commit(steps)

    def _ensure_folders(self) -> None:
        p = self.paths
        self._zookeeper.ensure([p.audit(), p.hold(), p.rollout(), p.routes(), p.moves()])

    def advise(self, entries: Sequence[HistoryEntry]) -> None:
        """Write plans where people find them and nobody applies them; `TooLargeError` for one that no znode holds."""
        self._zookeeper.ensure([self.paths.proposal()])
        for entry in entries:
            self._put_message(self.paths.proposal(entry.plan.topology_id), entry)

    def follow(self, move: MoveState, also: Sequence[Step] = ()) -> None:
        """Write what became of a topology's last move, in one transaction with these steps."""
        self._ensure_folders()
        self._put_message(self.paths.moves(move.topology_id), move, also)

    def judge(self, topology_id: str, plan_id: str, effect: EffectPart) -> None:
        """Write into the history what a plan won, which was carried out then."""
        self._tell(topology_id, plan_id, lambda entry: msgspec.structs.replace(entry, effect=effect, rejected=""))

    def reject(self, topology_id: str, plan_id: str, why: str) -> None:
        """Write into the history why a plan was not carried out; with an empty text, that it was after all."""
        self._tell(topology_id, plan_id, lambda entry: msgspec.structs.replace(entry, rejected=why))

    def _tell(self, topology_id: str, plan_id: str, told: Callable[[HistoryEntry], HistoryEntry]) -> None:
        """Write a plan's entry of the history anew; nothing where it is gone, cannot be read, or says so already.

        Where somebody else changed or locked it, that is logged and costs nothing else.
        """
        try:
            (names,) = self._zookeeper.children([self.paths.plan_history(topology_id)])
        except DeniedError:
            return
        for name in sorted(names, reverse=True):
            path = self.paths.plan_history(topology_id, name)
            (node,) = self._zookeeper.read([path], keep_denied=True)
            try:
                entry = None if node is None else decode(node.data, HistoryEntry, path)
            except UsageError:
                continue
            if entry is not None and entry.plan.plan_id == plan_id:
                try:
                    if (new := told(entry)) != entry:
                        self._put_message(path, new)
                except NOT_OURS as e:
                    log.warning("the history does not tell what became of a plan", plan=plan_id, why=e)
                return

    def _prune(self, topology_id: str) -> None:
        """Keep the newest whole plans of a history and as many others: steps, rejected plans, and what is none of ours.

        What ran before the first plan is kept as long as that, also where it was rejected.
        """
        (names,) = self._zookeeper.children([self.paths.plan_history(topology_id)])
        names = sorted(names, reverse=True)
        ours = [n for n in names if HISTORY_NUMBER.fullmatch(n)][: 2 * KEPT_PLANS + 2]
        nodes = self._zookeeper.read([self.paths.plan_history(topology_id, n) for n in ours], keep_denied=True)
        entries = [None if node is None else _entry(node.data, n) for n, node in zip(ours, nodes, strict=True)]
        whole = [n for n, is_whole in zip(ours, whole_plans(entries), strict=True) if is_whole]
        first = {n for n, e in zip(ours, entries, strict=True) if e is not None and e.former and e.rejected}
        first = set() if len(whole) > KEPT_PLANS else first
        others = [n for n in names if n not in whole and n not in first]
        for name in [*whole[KEPT_PLANS:], *others[KEPT_PLANS:]]:
            self._zookeeper.delete(self.paths.plan_history(topology_id, name))

    def _put_message(self, path: str, message: Message, also: Sequence[Step] = ()) -> None:
        """Write a message of our own; `TooLargeError` for one that no znode holds."""
        try:
            data = encode(message)
        except UsageError as e:
            raise TooLargeError(path, str(e)) from e
        self.put(path, data, also)

    def put(self, path: str, data: bytes, also: Sequence[Step] = ()) -> None:
        """Write something of the leader's own (no compare-and-set) with these steps, only while we lead."""
        (node,) = self._zookeeper.read([path])
        self._commit([Put(path, data, None if node is None else node.version), *also])

    def _commit(self, steps: Sequence[Step]) -> None:
        try:
            self._zookeeper.commit([*self.epoch.checks, *steps])
        except ConflictError as e:
            if e.path in [check.path for check in self.epoch.checks]:
                raise DeposedError(f"we do not lead any more: epoch {self.epoch.number} is over") from e
            raise


def _entry(data: bytes, name: str) -> HistoryEntry | None:
    """An entry of a history; None where it cannot be read."""
    try:
        return decode(data, HistoryEntry, name)
    except UsageError:
        return None
