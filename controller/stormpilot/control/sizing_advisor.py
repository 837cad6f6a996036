"""Watches the size of topologies: another one is proposed when the rate of their sources leaves what it supports."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stormpilot.config import SizingSection
from stormpilot.control.current_config import CurrentConfig
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.errors import StormpilotError
from stormpilot.model.values import Topology
from stormpilot.observe.build import ModelWithReadiness
from stormpilot.sizing.advice import Advice, Bounds, Change, advise
from stormpilot.sizing.problem import Problem, read_problem
from stormpilot.user_files import PROBLEM_BYTES, read_text


@dataclass(frozen=True)
class _Watched:
    """A change that a topology needs while it has this size, since when, and whether that is for long enough.

    `told`: a proposal was told and has not ended, this one or that of another size.
    """

    change: Change
    size: tuple[object, ...]
    since_ms: int
    stands: bool
    told: bool


@dataclass
class SizingAdvisor:
    """Proposes sizes of the topologies that `sizing.files` names; an operator carries one out by `apply-size`."""

    current: CurrentConfig
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _files: dict[Path, tuple[dict[Path, int], Problem]] = field(default_factory=dict)

    def observe(self, readiness: ModelWithReadiness, now_ms: int) -> tuple[dict[str, str], list[Event]]:
        """Sentences by topology id, and the events that begin now; a topology that is not measured keeps its state."""
        config = self.current.config.sizing
        said: dict[str, str] = {}
        events: list[Event] = []
        ids = {t.id for t in readiness.model.topologies if t.name in config.files}
        self._watched = {t: w for t, w in self._watched.items() if t in ids}
        for topology in readiness.model.topologies:
            if topology.id not in ids or not readiness.readiness[topology.id].ready:
                continue
            try:
                advice = self._advice(topology, readiness, config)
            except (OSError, UnicodeDecodeError, StormpilotError) as e:
                said[topology.id] = f"not known: {e}"
                continue
            except Exception as e:  # noqa: BLE001 (what cannot be advised on costs its topology the advice, no cycle)
                said[topology.id] = f"not known: {type(e).__name__}: {e}"
                continue
            text, event = self._followed(topology, advice, config.after_s, now_ms)
            said |= {topology.id: text} if text else {}
            events += [event] if event else []
        return said, events

    def _advice(self, topology: Topology, readiness: ModelWithReadiness, config: SizingSection) -> Advice | None:
        sources = readiness.sources.get(topology.id)
        bounds = Bounds(up_ratio=config.up_ratio, down_ratio=config.down_ratio, headroom_ratio=config.headroom_ratio)
        problem = self._problem(Path(config.files[topology.name]))
        return advise(
            problem, readiness.model, topology, held=sources is not None and sources.held is True, bounds=bounds
        )

    def _followed(
        self, topology: Topology, advice: Advice | None, after_s: float, now_ms: int
    ) -> tuple[str, Event | None]:
        """The sentence once the advice has stood long enough, and the event where that begins or ends.

        Another size begins anew: what came until it was carried out, and waited meanwhile, says nothing of it.
        """
        before = self._watched.pop(topology.id, None)
        if advice is None:
            ends = before is not None and before.told
            text = "its size fits the rate of its sources"
            return "", Event(EventKind.SIZE_FITS, topology.id, topology.name, text, now_ms) if ends else None
        size = (*((c, now) for c, (now, _) in advice.threads.items()), advice.slots[0])
        same = before if before is not None and (before.change, before.size) == (advice.change, size) else None
        since_ms = now_ms if same is None else same.since_ms
        stands = now_ms - since_ms >= 1000 * after_s
        told = stands or (before is not None and before.told)
        self._watched[topology.id] = _Watched(advice.change, size, since_ms, stands, told)
        if not stands:
            return "", None
        reason = Reason.SCALE_UP if advice.change == "up" else Reason.SCALE_DOWN
        text = f"{reason}: {advice.text}"
        if same is not None and same.stands:
            return text, None
        return text, Event(
            EventKind.SIZE_PROPOSED,
            topology.id,
            topology.name,
            text,
            now_ms,
            round(advice.rate_tps, 3),
            round(advice.supported_tps, 3),
        )

    def _problem(self, path: Path) -> Problem:
        """The file, read again when it or one that it names may have changed."""
        kept = self._files.get(path)
        if kept is None or any(_changed_ns(file) != at_ns for file, at_ns in kept[0].items()):
            changed_ns: dict[Path, int] = {}

            def text_of(file: Path) -> str:
                changed_ns[file] = _changed_ns(file)
                return read_text(file, PROBLEM_BYTES)

            kept = self._files[path] = (changed_ns, read_problem(path, text_of))
        return kept[1]


def _changed_ns(file: Path) -> int:
    return file.stat().st_mtime_ns
