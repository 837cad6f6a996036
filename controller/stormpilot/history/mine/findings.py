"""Rows of the frames into messages: a number where there is enough, else the default and why. No Spark in here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from stormpilot.config import Config
from stormpilot.config.enough import Enough
from stormpilot.history.mine.sizing import Sizing, sizing
from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import (
    EdgeProfile,
    PerformancePoint,
    Profile,
    Scope,
    ThresholdEntry,
    Thresholds,
)

Row = Mapping[str, Any]
NOISES = 3.0
"""A change is one when it is more than so many times the noise."""
LEAST_CPU_LIMIT = 0.3
HOURS_OF_WEEK = th.HOURS_OF_WEEK


@dataclass
class Rows:
    """What the jobs found, by the name of the frame."""

    topologies: Sequence[Row] = ()
    noise: Sequence[Row] = ()
    executor_noise: Sequence[Row] = ()
    knees: Sequence[Row] = ()
    seen: Sequence[Row] = ()
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


class Mined(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one topology; `profile` is null below a week, `sizing` unless it was asked for."""

    thresholds: Thresholds
    profile: Profile | None = None
    sizing: Sizing | None = None


@dataclass(frozen=True)
class Terms:
    """What the numbers are judged by: defaults, floors and caps of `config`; who mined which log, and when."""

    config: Config = field(default_factory=Config)
    now_ms: int = 0
    by: str = ""
    log: str = ""

    @property
    def enough(self) -> Enough:
        """The least that is believed."""
        return self.config.history.needs()


def limits(knees: Sequence[Row], terms: Terms) -> dict[str, float]:
    """B(n) by supervisor, where one was found."""
    entries = {str(r["supervisor"]): _cpu_limit(str(r["supervisor"]), r, None, terms) for r in knees}
    return {s: e.value for s, e in entries.items() if e.source == "mined" and e.value is not None}


def findings(rows: Rows, terms: Terms) -> list[Mined]:
    """One entry per topology, by name."""
    return [_Topology(row, rows, terms).mined() for row in sorted(rows.topologies, key=lambda r: r["topology_name"])]


class _Topology:
    """The numbers of one topology."""

    def __init__(self, row: Row, rows: Rows, terms: Terms):
        self.row, self.rows, self.terms, self.enough = row, rows, terms, terms.enough
        self.name: str = row["topology_name"]

    def mined(self) -> Mined:
        head = {
            "topology_id": self.row["topology_id"],
            "topology_name": self.name,
            "mined_at_ms": self.terms.now_ms,
            "from_ms": _ms(self.row["first"]),
            "to_ms": _ms(self.row["last"]),
        }
        entries = [*self._noise(), *self._restart(), *self._limits(), *self._overload(), *self._otd(), self._forecast()]
        entries += [*self._selectivity(), *self._cpu()]
        thresholds = Thresholds(
            **head, by=self.terms.by, log=self.terms.log, entries=entries, performance=self._performance()
        )
        return Mined(thresholds=thresholds, profile=self._profile(head), sizing=self._sizing(thresholds))

    def _mine(self, rows: Sequence[Row]) -> list[Row]:
        return [r for r in rows if r["topology_name"] == self.name]

    def _one(self, rows: Sequence[Row]) -> Row | None:
        return next(iter(self._mine(rows)), None)

    def _noise(self) -> list[ThresholdEntry]:
        config, row = self.terms.config, self._one(self.rows.noise)
        why = lacking(row, self.enough, ("windows", self.enough.noise_windows, "windows with traffic between nodes"))
        noise = None if row is None or why else float(row["noise_ratio"])
        hours = "" if row is None else f"the median of {row['hours_of_week']} hours of the week"
        found = [entry(th.NOISE_RATIO, row, noise, hours, why)]
        text = "" if noise is None else f"3 x the noise of {noise:.3f}"
        floors = (
            (th.GAIN_RATIO, config.verify.noise_floor_ratio, config.decide.gain_threshold_ratio),
            (th.NOISE_FLOOR_RATIO, 0.01, config.verify.noise_floor_ratio),
        )
        for name, floor, default in floors:
            found.append(entry(name, row, *_above(noise, floor, text, highest=1.0), default=default, why=why))
        row = self._one(self.rows.executor_noise)
        why = lacking(row, self.enough, ("executor_hours", 4 * self.enough.hours, "hours of executors"))
        each = None if row is None or why else float(row["executor_noise_tps"])
        text = "" if each is None else f"3 x the noise of one executor, {each:.3g} tuples/s"
        default = config.otd.threshold_asc_tps
        return [*found, entry(th.OTD_ASC, row, *_above(each, 1.0, text), default=default, why=why)]

    def _restart(self) -> list[ThresholdEntry]:
        row = self._one(self.rows.restart_s)
        why = lacking(row, None, ("moves", self.enough.moves, "moves with a known outcome"))
        text = "" if why or row is None else f"the median of {row['moves']} moves"
        value = None if why or row is None else round(float(row["restart_s"]), 3)
        return [entry(th.RESTART_S, row, value, text, why, default=self.terms.config.decide.restart_s)]

    def _limits(self) -> list[ThresholdEntry]:
        knees = {r["supervisor"]: r for r in self.rows.knees}
        seen = {r["supervisor"]: r for r in self.rows.seen}
        return [_cpu_limit(s, knees.get(s), seen.get(s), self.terms) for s in self._supervisors()]

    def _supervisors(self) -> list[str]:
        return sorted(self.row["supervisors"] or [])

    def _overload(self) -> list[ThresholdEntry]:
        """Of the topology; of a supervisor only where it has episodes enough of its own."""
        found, enough, default = [], self.enough, self.terms.config.decide.overload_s
        rows = {r["supervisor"]: r for r in self._mine(self.rows.overload_s)}
        for supervisor in (None, *self._supervisors()):
            row = rows.get(supervisor)
            why = lacking(row, None, ("episodes", enough.episodes, "overloads that ended by themselves"))
            if supervisor is not None and why:
                continue
            value = None if why or row is None else round(min(float(row["overload_s"]), 86_400.0), 3)
            text = ""
            if value is not None and row is not None:
                text = f"95% of {row['episodes']} overloads ended by themselves within this; {row['moved']} by a change"
            where: dict[str, Any] = {} if supervisor is None else {"scope": "supervisor", "of": [supervisor]}
            found.append(entry(th.OVERLOAD_S, row, value, text, why, default=default, **where))
        return found

    def _otd(self) -> list[ThresholdEntry]:
        section, enough, row = self.terms.config.otd, self.enough, self._one(self.rows.otd)
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
            for name, value, text, default in (
                (low_name, low, "75% of workers that were not soon overloaded had at most this", low_default),
                (high_name, high, "a quarter of workers that soon were overloaded had more", high_default),
            ):
                mined = None if reason or value is None else round(float(value), 6)
                found.append(entry(name, row, mined, text, reason, default=default))
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
        return entry(th.FORECAST_ERROR_RATIO, row, value, text, why)

    def _selectivity(self) -> list[ThresholdEntry]:
        found = []
        for row in sorted(self._mine(self.rows.selectivity), key=_edge):
            why = lacking(row, None, ("hours", self.enough.hours, "hours with traffic"))
            value, text = (None, None) if why else (float(row["selectivity"]), f"the median of {row['hours']} hours")
            found.append(entry(th.SELECTIVITY, row, value, text, why, scope="edge", of=_edge(row)))
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
            for name, value in ((th.CPU_INTERCEPT_MHZ, intercept), (th.CPU_MHZ_PER_TPS, slope)):
                found.append(entry(name, row, value, text, why, scope="component", of=[component]))
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
        need = ("windows", self.enough.peak_windows, "windows")
        rows = [r for r in self._mine(self.rows.performance) if not lacking(r, self.enough, need)]
        return [
            PerformancePoint(
                component=r["component"],
                threads=r["threads"],
                rate_tps=float(r["rate_tps"]),
                cpu_mhz=float(r["cpu_mhz"] or 0.0),
                memory_mb=float(r["memory_mb"] or 0.0),
                rows=r["rows"],
            )
            for r in sorted(rows, key=lambda r: (r["component"], r["threads"]))
        ]

    def _sizing(self, thresholds: Thresholds) -> Sizing | None:
        if not self.rows.machines:
            return None
        graph = self._one(self.rows.graphs)
        components = None if graph is None else graph["components"]
        return sizing(thresholds, components, self._mine(self.rows.peaks), self.rows.machines)

    def _profile(self, head: dict[str, Any]) -> Profile | None:
        if head["to_ms"] - head["from_ms"] < self.enough.week_h * 3_600_000 * 0.98:
            return None
        errors = {_edge(r): r["forecast_error_ratio"] for r in map(_keyed, self._mine(self.rows.forecast_error))}
        by_edge: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
        for r in self._mine(self.rows.profile):
            by_edge[tuple(_edge(r))].append(r)
        busiest = sorted(by_edge, key=lambda e: -sum(r["rate_tps"] * r["windows"] for r in by_edge[e]))
        edges = [self._edge_profile(e, by_edge[e], errors.get(e)) for e in busiest[: th.MAX_PROFILE_EDGES]]
        if not edges:
            return None
        topology = errors.get(("", "", ""))
        rows = sum(r["rows"] for e in by_edge.values() for r in e)
        return Profile(**head, rows=rows, forecast_error_ratio=topology, edges=edges)

    @staticmethod
    def _edge_profile(edge: tuple[str, ...], rows: list[Row], error: float | None) -> EdgeProfile:
        rates: list[float | None] = [None] * HOURS_OF_WEEK
        for r in rows:
            rates[r["hour_of_week"]] = round(float(r["rate_tps"]), 4)
        return EdgeProfile(
            from_=edge[0],
            stream=edge[1],
            to=edge[2],
            rate_tps=rates,
            weeks=max(r["weeks"] for r in rows),
            forecast_error_ratio=error,
        )


def _cpu_limit(supervisor: str, row: Row | None, seen: Row | None, terms: Terms) -> ThresholdEntry:
    """B(n): the knee, not above the cap; the default where latency was never seen to leave its band."""
    cap = terms.config.decide.cpu_limit_ratio
    why = lacking(row or seen, terms.enough, ("rows", terms.enough.knee_windows, "windows as the busiest node"))
    if not why and (row is None or row["rise_ratio"] <= max(row["band_ratio"], 0.1)):
        highest = (row or seen or {}).get("highest_ratio")
        why = "latency stays in its band" + ("" if highest is None else f" up to a utilisation of {highest:.2f}")
    value, text = None, ""
    if not why and row is not None:
        knee = float(row["knee_ratio"])
        value = min(max(knee, LEAST_CPU_LIMIT), cap)
        text = "latency leaves its band above this"
        if value != knee:
            text = f"latency leaves its band above {knee:.3f}, " + (
                "capped by the configuration" if knee > cap else "too low"
            )
    return entry(th.CPU_LIMIT_RATIO, row or seen, value, text, why, default=cap, scope="supervisor", of=[supervisor])


def _why_no_pair(low: float | None, high: float | None, rare: float | None, highest: float | None) -> str:
    """Why a low and a high threshold cannot be used; empty when they can."""
    if low is None or high is None or rare is None:
        return "not measured"
    if not high > rare or not low < high:
        return f"does not tell: a quarter is above {high:.4g} before overloads, 5% above {rare:.4g} otherwise"
    if highest is not None and not 0 < low < high <= highest:
        return f"out of range: {low:.4g} and {high:.4g}"
    return ""


def lacking(row: Row | None, enough: Enough | None, *needs: tuple[str, int, str]) -> str:
    """Why the rows behind a number are too few; empty when they are enough. `enough`: its span counts too."""
    if row is None:
        return f"no {needs[0][2]}"
    missing = [f"{row[column]} {what}, {least} needed" for column, least, what in needs if row[column] < least]
    if enough is not None:
        span_h = (_ms(row["last"]) - _ms(row["first"])) / 3_600_000
        if span_h < enough.span_h * 0.98:  # a day's windows begin with the first one's end
            missing.append(f"{span_h:.3g} hours, {enough.span_h:g} needed")
    return "; ".join(missing)


def entry(
    name: str,
    row: Row | None,
    value: float | None,
    text: str | None,
    why: str,
    *,
    default: float | None = None,
    scope: Scope = "topology",
    of: Sequence[str] = (),
) -> ThresholdEntry:
    """A mined number, or the default when `why` says what is lacking."""
    return ThresholdEntry(
        name=name,
        scope=scope,
        of=list(of),
        value=default if why else value,
        unit=th.UNITS.get(name, ""),
        source="default" if why else "mined",
        rows=0 if row is None else row["rows"],
        from_ms=0 if row is None else _ms(row["first"]),
        to_ms=0 if row is None else _ms(row["last"]),
        text=why or text or "",
    )


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


def _edge(row: Row) -> Any:
    return (row["from_component"], row["stream"], row["to_component"])


def _keyed(row: Row) -> Row:
    """The row of the topology as a whole has no edge."""
    return row if row["from_component"] is not None else {**row, "from_component": "", "stream": "", "to_component": ""}


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
