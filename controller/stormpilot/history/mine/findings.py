"""Rows of the frames into messages: a number where there is enough, else the default and why. No engine in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stormpilot.errors import NothingFoundError
from stormpilot.history.mine.days import of_days, of_quantile
from stormpilot.history.mine.entries import MiningCriteria, entry, lacking, ms
from stormpilot.history.mine.health import Health
from stormpilot.history.mine.limit import cpu_limit
from stormpilot.history.mine.log import Row
from stormpilot.history.mine.overload import LOGGED, MINED
from stormpilot.history.mine.profile_message import edge_of, profile_of
from stormpilot.history.mine.sizing import Sizing, sizing
from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import (
    PerformancePoint,
    Profile,
    ThresholdEntry,
    Thresholds,
)

DIFFER = 0.05
"""A number by another B(n) is told when it differs by more than this part."""
NOISES = 3.0
"""A change is one when it is more than so many times the noise."""


class Mined(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of one topology; `profile` is null below a week, `sizing` unless it was asked for."""

    thresholds: Thresholds
    profile: Profile | None = None
    sizing: Sizing | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A topology whose rows make no numbers, and why."""

    name: str
    text: str


class MinedLog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Output of `trafficlog mine -o`: all topologies, by which engine, and what was left out of the log."""

    topologies: list[Mined]
    engine: str = ""
    failed: list[Failed] = []
    health: Health = Health()


@dataclass
class Rows:
    """Rows that the jobs found, by the name of the frame."""

    topologies: Sequence[Row] = ()
    noise: Sequence[Row] = ()
    executor_noise: Sequence[Row] = ()
    knees: Sequence[Row] = ()
    overload_s: Sequence[Row] = ()
    otd: Sequence[Row] = ()
    restart_s: Sequence[Row] = ()
    selectivity: Sequence[Row] = ()
    cpu: Sequence[Row] = ()
    performance: Sequence[Row] = ()
    profile: Sequence[Row] = ()
    forecast_error: Sequence[Row] = ()
    graphs: Sequence[Row] = ()
    peaks: Sequence[Row] = ()
    machines: Sequence[Row] = ()


def limits(knees: Sequence[Row], criteria: MiningCriteria) -> dict[str, float]:
    """B(n) by supervisor, where one was found."""
    entries = {str(r["supervisor"]): cpu_limit(str(r["supervisor"]), r, criteria) for r in knees}
    return {s: e.value for s, e in entries.items() if e.source != "default" and e.value is not None}


def findings(rows: Rows, criteria: MiningCriteria) -> tuple[list[Mined], list[Failed]]:
    """One entry per topology, by name. A bad topology costs itself.

    Raises
    ------
    NothingFoundError
        There are topologies, and numbers of none can be worked out.
    """
    found, failed = list[Mined](), list[Failed]()
    for row in sorted(rows.topologies, key=lambda r: r["topology_name"]):
        try:
            found.append(_Topology(row, rows, criteria).mined())
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, msgspec.MsgspecError) as e:
            failed.append(Failed(name=row["topology_name"], text=f"{type(e).__name__}: {e}"))
    if failed and not found:
        raise NothingFoundError(f"no topology can be mined: {failed[0].name}: {failed[0].text}")
    return found, failed


class _Topology:
    """The numbers of one topology."""

    def __init__(self, row: Row, rows: Rows, criteria: MiningCriteria):
        self.row, self.rows, self.criteria, self.enough = row, rows, criteria, criteria.enough
        self.name: str = row["topology_name"]

    def mined(self) -> Mined:
        head = {
            "topology_id": self.row["topology_id"],
            "topology_name": self.name,
            "mined_at_ms": self.criteria.now_ms,
            "from_ms": ms(self.row["first"]),
            "to_ms": ms(self.row["last"]),
        }
        entries = [*self._noise(), *self._restart(), *self._limits(), *self._overload(), *self._otd(), self._forecast()]
        entries += [*self._selectivity(), *self._cpu()]
        thresholds = Thresholds(
            **head, by=self.criteria.by, log=self.criteria.log, entries=entries, performance=self._performance()
        )
        return Mined(thresholds=thresholds, profile=self._profile(head), sizing=self._sizing(thresholds))

    def _mine(self, rows: Sequence[Row]) -> list[Row]:
        return [r for r in rows if r["topology_name"] == self.name]

    def _one(self, rows: Sequence[Row]) -> Row | None:
        return next(iter(self._mine(rows)), None)

    def _noise(self) -> list[ThresholdEntry]:
        config, row = self.criteria.config, self._one(self.rows.noise)
        why = lacking(row, self.enough, ("windows", self.enough.noise_windows, "windows with traffic between nodes"))
        if row is None and self.row["rows"]:
            why = f"{self.row['rows']} windows, none measured whole with traffic between nodes in an hour of 8 or more"
        noise = None if row is None or why else float(row["noise_ratio"])
        hours = "" if row is None else f"the median of {row['hours_of_week']} hours of the week"
        sure = of_days(row, "noise_ratio")
        found = [entry(th.NOISE_RATIO, row, noise, hours, why, interval=sure)]
        text = "" if noise is None else f"3 x the noise of {noise:.3f}"
        floors = (
            (th.GAIN_RATIO, config.verify.noise_floor_ratio, config.decide.gain_threshold_ratio),
            (th.NOISE_FLOOR_RATIO, 0.01, config.verify.noise_floor_ratio),
        )
        for name, floor, default in floors:
            above = _above(noise, floor, text, highest=1.0)
            found.append(entry(name, row, *above, default=default, why=why, interval=_both_above(sure, floor, 1.0)))
        row = self._one(self.rows.executor_noise)
        why = lacking(row, self.enough, ("executor_hours", 4 * self.enough.hours, "hours of executors"))
        each = None if row is None or why else float(row["executor_noise_tps"])
        text = "" if each is None else f"3 x the noise of one executor, {each:.3g} tuples/s"
        default = config.otd.threshold_asc_tps
        sure = _both_above(of_days(row, "executor_noise_tps"), 1.0)
        return [*found, entry(th.OTD_ASC, row, *_above(each, 1.0, text), default=default, why=why, interval=sure)]

    def _restart(self) -> list[ThresholdEntry]:
        row = self._one(self.rows.restart_s)
        why = lacking(row, None, ("moves", self.enough.moves, "moves with a known outcome"))
        text = "" if why or row is None else f"the median of {row['moves']} moves"
        value = None if why or row is None else round(float(row["restart_s"]), 3)
        sure = (None, None) if row is None else of_quantile(row["samples"], 0.5)
        default = self.criteria.config.decide.restart_s
        return [entry(th.RESTART_S, row, value, text, why, default=default, interval=sure)]

    def _limits(self) -> list[ThresholdEntry]:
        knees = {r["supervisor"]: r for r in self.rows.knees}
        return [cpu_limit(s, knees.get(s), self.criteria, self.row["rows"]) for s in self._supervisors()]

    def _supervisors(self) -> list[str]:
        return sorted(self.row["supervisors"] or [])

    def _overload(self) -> list[ThresholdEntry]:
        """Of the topology; of a supervisor only where it has episodes enough of its own."""
        found, enough, default = [], self.enough, self.criteria.config.decide.overload_s
        rows = {(r["by"], r["supervisor"]): r for r in self._mine(self.rows.overload_s)}
        for supervisor in (None, *self._supervisors()):
            row, other = (rows.get((by, supervisor)) for by in (LOGGED, MINED))
            why = lacking(row, None, ("episodes", enough.episodes, "overloads that ended by themselves"))
            if supervisor is not None and why:
                continue
            value = None if why or row is None else round(min(float(row["overload_s"]), 86_400.0), 3)
            text = ""
            if value is not None and row is not None:
                text = f"95% of {row['episodes']} overloads ended by themselves within this; {row['moved']} by a change"
                other_s = None if other is None or other["episodes"] < enough.episodes else float(other["overload_s"])
                text += _also(value, other_s, "s")
            where: dict[str, Any] = {} if supervisor is None else {"scope": "supervisor", "of": [supervisor]}
            sure = (None, None) if row is None or why else of_quantile(row["samples"], 0.95)
            found.append(
                entry(th.OVERLOAD_S, row, value, text, why, default=default, by=LOGGED, interval=sure, **where)
            )
        return found

    def _otd(self) -> list[ThresholdEntry]:
        section, enough = self.criteria.config.otd, self.enough
        by = {r["by"]: r for r in self._mine(self.rows.otd)}
        row, other = by.get(LOGGED), by.get(MINED)
        why = lacking(
            row,
            enough,
            ("soon", enough.workers, "windows of workers soon to be overloaded"),
            ("others", enough.workers, "windows of other workers"),
        )
        found = []
        pairs = (
            ((th.OTD_CPU_LOW, section.cpu_low), (th.OTD_CPU_HIGH, section.cpu_high), "cpu_{}"),
            (
                (th.OTD_QUEUE_LOW, section.queue_low_tuples),
                (th.OTD_QUEUE_HIGH, section.queue_high_tuples),
                "queue_{}_tuples",
            ),
        )
        for (low_name, low_default), (high_name, high_default), column in pairs:
            low, high, rare = (None if row is None else row[column.format(x)] for x in ("low", "high", "rare"))
            reason = why or _why_no_pair(low, high, rare, 1.0 if column.startswith("cpu") else None)
            for name, value, which, text, default in (
                (low_name, low, "low", "75% of workers that were not soon overloaded had at most this", low_default),
                (high_name, high, "high", "a quarter of workers that soon were overloaded had more", high_default),
            ):
                mined = None if reason or value is None else round(float(value), 6)
                also = _also(mined, None if other is None else other[column.format(which)], "")
                sure = of_days(row, column.format(which))
                found.append(entry(name, row, mined, text + also, reason, default=default, by=LOGGED, interval=sure))
        return found

    def _forecast(self) -> ThresholdEntry:
        row = next((r for r in self._mine(self.rows.forecast_error) if r["from_component"] is None), None)
        why = "" if row is not None else "less than eight days: nothing to test a week's profile on"
        value = None if row is None else float(row["forecast_error_ratio"])
        text = (
            ""
            if row is None
            else (f"median over {row['windows']} windows held out; weighted by rate {row['weighted_error_ratio']:.3f}")
        )
        return entry(th.FORECAST_ERROR_RATIO, row, value, text, why, interval=of_days(row, "forecast_error_ratio"))

    def _selectivity(self) -> list[ThresholdEntry]:
        found = []
        for row in sorted(self._mine(self.rows.selectivity), key=edge_of):
            why = lacking(row, None, ("hours", self.enough.hours, "hours with traffic"))
            value, text = (None, None) if why else (float(row["selectivity"]), f"the median of {row['hours']} hours")
            sure = of_days(row, "selectivity")
            found.append(
                entry(
                    th.SELECTIVITY,
                    row,
                    value,
                    text,
                    why,
                    scope="edge",
                    of=[e or "" for e in edge_of(row)],
                    interval=sure,
                )
            )
        return found

    def _cpu(self) -> list[ThresholdEntry]:
        found = []
        rows = {r["component"]: r for r in self._mine(self.rows.cpu)}
        for component in sorted({*(self.row["components"] or []), *rows}):
            row = rows.get(component)
            why = "no hours of executors with different rates" if row is None else self._why_no_line(row)
            text, slope, intercept = "", None, None
            if row is not None and not why:
                slope, intercept = float(row["mhz_per_tps"]), float(row["intercept_mhz"])
                text = f"seen from {row['from_tps']:.4g} to {row['to_tps']:.4g} tuples/s"
                if core := row["core_mhz"]:
                    per_tuple, always = slope / core * 1000, intercept / core * 1000
                    text += f"; {per_tuple:.4g} ms per tuple and {always:.4g} ms/s on a core of {core:.0f} MHz"
            for name, value, column in (
                (th.CPU_INTERCEPT_MHZ, intercept, "intercept_mhz"),
                (th.CPU_MHZ_PER_TPS, slope, "mhz_per_tps"),
            ):
                sure = of_days(row, column)
                found.append(entry(name, row, value, text, why, scope="component", of=[component], interval=sure))
        return found

    def _why_no_line(self, row: Row) -> str:
        enough = self.enough
        why = lacking(row, None, ("hours", 4 * enough.hours, "hours of executors"))
        if why:
            return why
        if row["to_tps"] - row["from_tps"] < enough.spread_ratio * row["to_tps"]:
            return f"rates hardly differ: {row['from_tps']:.4g} to {row['to_tps']:.4g} tuples/s"
        if row["mhz_per_tps"] is None or row["mhz_per_tps"] <= 0:
            return "CPU does not rise with the rate"
        if (row["r2"] or 0.0) < enough.explained_ratio:
            return f"a line explains only {row['r2'] or 0.0:.0%} of how CPU differs"
        return ""

    def _performance(self) -> list[PerformancePoint]:
        """By the logged B(n); where the mined one gives another rate, that point too."""
        need = ("windows", self.enough.peak_windows, "windows")
        rows = [r for r in self._mine(self.rows.performance) if not lacking(r, self.enough, need)]
        logged = {(r["component"], r["threads"]): r["rate_tps"] for r in rows if r["by"] == LOGGED}
        rows = [
            r for r in rows if r["by"] == LOGGED or _differ(r["rate_tps"], logged.get((r["component"], r["threads"])))
        ]
        return [_point(r) for r in sorted(rows, key=lambda r: (r["component"], r["threads"], r["by"]))]

    def _sizing(self, thresholds: Thresholds) -> Sizing | None:
        if not self.rows.machines:
            return None
        graph = self._one(self.rows.graphs)
        components = None if graph is None else graph["components"]
        return sizing(thresholds, components, self._mine(self.rows.peaks), self.rows.machines)

    def _profile(self, head: dict[str, Any]) -> Profile | None:
        if head["to_ms"] - head["from_ms"] < self.enough.week_h * 3_600_000 * 0.98:
            return None
        return profile_of(head, self._mine(self.rows.profile), self._mine(self.rows.forecast_error))


def _point(row: Row) -> PerformancePoint:
    low, high = of_days(row, "rate_tps")
    return PerformancePoint(
        component=row["component"],
        threads=row["threads"],
        rate_tps=float(row["rate_tps"]),
        cpu_mhz=float(row["cpu_mhz"] or 0.0),
        memory_mb=float(row["memory_mb"] or 0.0),
        low_tps=low,
        high_tps=high,
        days=len(row.get("by_day", ())),
        rows=row["rows"],
        by=row["by"],
    )


def _why_no_pair(low: float | None, high: float | None, rare: float | None, highest: float | None) -> str:
    """Why a low and a high threshold cannot be used; empty when they can."""
    if low is None or high is None or rare is None:
        return "not measured"
    if not high > rare or not low < high:
        return f"does not tell: a quarter is above {high:.4g} before overloads, 5% above {rare:.4g} otherwise"
    if highest is not None and not 0 < low < high <= highest:
        return f"out of range: {low:.4g} and {high:.4g}"
    return ""


def _above(noise: float | None, floor: float, text: str, highest: float | None = None) -> tuple[float | None, str]:
    """Three times the noise, at least `floor`."""
    if noise is None:
        return None, ""
    value = NOISES * noise
    if value < floor:
        return floor, f"{text}, raised to the floor"
    if highest is not None and value > highest:
        return highest, f"{text}, cut"
    return value, text


def _both_above(
    noise: tuple[float | None, float | None], floor: float, highest: float | None = None
) -> tuple[float | None, float | None]:
    """The interval of `_above` from that of the noise."""
    low, high = (_above(n, floor, "", highest)[0] for n in noise)
    return low, high


def _differ(value: float, other: float | None) -> bool:
    return other is None or abs(value - other) > DIFFER * abs(other)


def _also(value: float | None, by_mined: float | None, unit: str) -> str:
    """The finding under the mined B(n), where that differs."""
    if value is None or by_mined is None or not _differ(by_mined, value):
        return ""
    return f"; by the mined B(n) {by_mined:.4g}{f' {unit}' if unit else ''}"
