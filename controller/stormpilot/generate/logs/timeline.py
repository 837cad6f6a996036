"""Timeline of a synthetic topology, window by window: rate, bursts, overloads, placements, gaps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stormpilot.generate.logs.places import Places, place
from stormpilot.generate.logs.shape import CORE_MHZ, Floats, Ints, Shape
from stormpilot.generate.logs.spec import DAY_S, Spec
from stormpilot.messages.thresholds import HOURS_OF_WEEK

PEAK_LOAD_RATIO = 0.5
"""The busiest node at the highest hour of the week, by the placement that loads one most."""
LOWEST_BURST, HIGHEST_BURST = 0.52, 0.96
LEAD = 3
"""Queues fill for so many windows before an overload."""
_LASTING = (22, 40)
CALM_QUEUE, FULL_QUEUE = 40.0, 4000.0


@dataclass(frozen=True)
class Move:
    """From window `at` on a placement holds; `reason` is the decision's, empty for the first one."""

    at: int
    places: Places
    reason: str


@dataclass
class Timeline:
    """Arrays by window. `rate_tps` is of all spouts, `silent` an executor without reports or -1, `gap` = no log at all,
    `filling` = queues are long on the hot node."""

    rate_tps: Floats
    placement: Ints
    gap: npt.NDArray[np.bool_]
    silent: Ints
    filling: npt.NDArray[np.bool_]
    moves: list[Move]
    profile_tps: Floats
    node_mhz: float
    bursts: list[tuple[int, int, float]] = field(default_factory=list)
    lasting: list[tuple[int, int]] = field(default_factory=list)


def hours(spec: Spec) -> Ints:
    """Hour of the week of every window, by its end."""
    ends_ms = spec.start_ms + (np.arange(spec.windows) + 1) * spec.window_s * 1000
    return (ends_ms // 3_600_000 + 72) % HOURS_OF_WEEK


def make_timeline(spec: Spec, shape: Shape, rng: np.random.Generator) -> Timeline:
    """Draw what happens."""
    n = spec.windows
    profile = _profile(spec, rng)
    weeks = np.arange(n) * spec.window_s / (7 * DAY_S)
    plain = profile[hours(spec)] * (1 + spec.drift_per_week_ratio * weeks)
    rate = plain * (1 + spec.noise_ratio * rng.standard_normal(n)).clip(0.5, 1.5)
    gap, silent = np.zeros(n, dtype=bool), np.full(n, -1, dtype=np.int64)
    lasting = _lasting(spec, rng)
    changes: list[Change] = [(end, "OVERLOAD", None) for _, end in lasting]
    changes += [(int(at), "GAIN", None) for at in _times(spec.moves_per_day, spec, rng)]
    for i, at in enumerate(_times(spec.failures_per_day, spec, rng)):
        length = int(rng.integers(5, 40))
        if i % 3 == 0:
            gap[at : at + length] = True
        elif i % 3 == 1:
            silent[at : at + length] = rng.integers(shape.executors)
        elif spec.nodes > 2 and at + 3 * length < n:
            changes += [
                (int(at), "REPAIR", int(rng.integers(spec.nodes))),
                (int(at + 3 * length), "NEW_SUPERVISOR", None),
            ]
    moves = _moves(changes, spec, shape, rng)
    placement = np.searchsorted([m.at for m in moves], np.arange(n), side="right") - 1
    peak = max(float((m.places.base_mhz + m.places.mhz_per_tps * profile.max()).max()) for m in moves)
    node_mhz = np.ceil(peak / PEAK_LOAD_RATIO / CORE_MHZ * 10) / 10 * CORE_MHZ
    timeline = Timeline(rate, placement, gap, silent, np.zeros(n, dtype=bool), moves, profile, float(node_mhz))
    _surge(timeline, spec, lasting, rng)
    return timeline


def _profile(spec: Spec, rng: np.random.Generator) -> Floats:
    """By hour of the week: one peak a day, weaker at the weekend."""
    hour = np.arange(HOURS_OF_WEEK)
    peak_hour = rng.uniform(10, 18)
    day = 1 + spec.daily_ratio * np.cos((hour % 24 - peak_hour) / 24 * 2 * np.pi)
    return spec.source_tps * day * np.where(hour >= 120, spec.weekend_ratio, 1.0)


def _times(per_day: float, spec: Spec, rng: np.random.Generator) -> Ints:
    count = rng.poisson(per_day * spec.days) if per_day * spec.days < 20 else round(per_day * spec.days)
    return np.sort(rng.integers(0, max(1, spec.windows), count))


def _lasting(spec: Spec, rng: np.random.Generator) -> list[tuple[int, int]]:
    """[begin, end) of overloads that a move ends; well apart from one another."""
    found: list[tuple[int, int]] = []
    for at in _times(spec.overloads_per_day, spec, rng):
        end = int(at + rng.integers(*_LASTING))
        if end < spec.windows and (not found or at > found[-1][1] + 2 * _LASTING[1]):
            found.append((int(at), end))
    return found


Change = tuple[int, str, int | None]
"""Window, reason, and the node that is lost from then on."""


def _moves(changes: list[Change], spec: Spec, shape: Shape, rng: np.random.Generator) -> list[Move]:
    moves = [Move(0, place(shape, spec.nodes, int(rng.integers(spec.nodes)), rng), "")]
    lost: int | None = None
    for at, reason, node in sorted(changes, key=lambda c: c[0]):
        if at <= moves[-1].at:
            continue
        lost = node if reason == "REPAIR" else None if reason == "NEW_SUPERVISOR" else lost
        hot = (moves[-1].places.hot + 1) % spec.nodes
        hot = (hot + 1) % spec.nodes if hot == lost else hot
        moves.append(Move(at, place(shape, spec.nodes, hot, rng, lost), reason))
    return moves


def _surge(t: Timeline, spec: Spec, lasting: list[tuple[int, int]], rng: np.random.Generator) -> None:
    """Bursts and lasting overloads: the hot node is brought to a level, the same for all of the burst."""
    n = spec.windows
    taken = np.zeros(n + 64, dtype=bool)
    for begin, end in lasting:
        taken[max(0, begin - 12) : end + 12] = True
        _raise(t, spec, begin, end, rng.uniform(0.88, HIGHEST_BURST))
        t.lasting.append((begin, end))
    for move in t.moves:
        taken[max(0, move.at - 12) : move.at + 3] = True
    taken[:n] |= t.gap | (t.silent >= 0)
    for at in _times(spec.bursts_per_day, spec, rng):
        length = _burst_windows(spec.overload_windows, rng)
        begin, end = int(at), int(at) + length
        if end + 8 >= n or taken[max(0, begin - 8) : end + 8].any():
            continue
        level = rng.uniform(LOWEST_BURST, HIGHEST_BURST)
        taken[max(0, begin - 8) : end + 8] = True
        _raise(t, spec, begin, end, level)
        t.bursts.append((begin, end, level))


def _raise(t: Timeline, spec: Spec, begin: int, end: int, level: float) -> None:
    places = t.moves[int(t.placement[begin])].places
    wanted = (level * t.node_mhz - places.base_mhz[places.hot]) / places.mhz_per_tps[places.hot]
    t.rate_tps[begin:end] = np.maximum(wanted, t.rate_tps[begin:end].min())
    lead = slice(max(0, begin - LEAD), begin)
    if level >= spec.cpu_limit_ratio:
        t.filling[lead] = True
        t.filling[begin:end] = True


def _burst_windows(p95: int, rng: np.random.Generator) -> int:
    """Lengths whose 95th percentile is `p95` with room on both sides: 8% are exactly that, 1% longer."""
    u = rng.random()
    if u < 0.91:
        return int(rng.integers(1, max(2, p95 * 3 // 4)))
    return p95 if u < 0.99 else p95 + int(rng.integers(1, p95 + 1))
