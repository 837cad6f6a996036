"""Component graphs of real topologies: who sends to whom, by which grouping, and how many tuples per tuple.

Sources: linear, diamond and star are the patterns of the micro dataflows of R-Storm and of S17 8.3, with other tasks;
`wordcount` is the workload of N24 5; `etl` and `statistics` have the structure of the RIoTBench applications; `flights`
is this repository's example.
Names, groupings and selectivities are ours where a source gives none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stream:
    """A subscription: `target` receives `source`'s stream; `selectivity` is tuples out per tuple that source takes."""

    source: str
    target: str
    grouping: str
    selectivity: float = 1.0
    name: str = "default"


@dataclass(frozen=True)
class Shape:
    """Components in order (spouts are those that nothing sends to) with their share of the executors."""

    name: str
    share: dict[str, float]
    streams: tuple[Stream, ...]

    @property
    def spouts(self) -> list[str]:
        """Components that receive nothing."""
        targets = {s.target for s in self.streams}
        return [c for c in self.share if c not in targets]

    @property
    def single(self) -> set[str]:
        """Components that only the first task of which would get tuples (GLOBAL): they have one executor."""
        return {s.target for s in self.streams if s.grouping == "GLOBAL"}


SHAPES: dict[str, Shape] = {
    s.name: s
    for s in (
        Shape(
            "linear",
            {"source": 1, "parse": 2, "enrich": 2, "aggregate": 2, "sink": 1},
            (
                Stream("source", "parse", "SHUFFLE"),
                Stream("parse", "enrich", "SHUFFLE", 0.9),
                Stream("enrich", "aggregate", "FIELDS"),
                Stream("aggregate", "sink", "SHUFFLE", 0.2),
            ),
        ),
        Shape(
            "diamond",
            {"source": 1, "left": 2, "middle": 2, "right": 2, "join": 2, "sink": 1},
            (
                Stream("source", "left", "SHUFFLE", 1.0, "left"),
                Stream("source", "middle", "SHUFFLE", 1.0, "middle"),
                Stream("source", "right", "SHUFFLE", 0.5, "right"),
                Stream("left", "join", "FIELDS"),
                Stream("middle", "join", "FIELDS"),
                Stream("right", "join", "FIELDS"),
                Stream("join", "sink", "SHUFFLE", 0.3),
            ),
        ),
        Shape(
            "star",
            {"clicks": 1, "views": 1, "hub": 4, "store": 2, "alert": 1},
            (
                Stream("clicks", "hub", "FIELDS"),
                Stream("views", "hub", "FIELDS"),
                Stream("hub", "store", "SHUFFLE", 0.8),
                Stream("hub", "alert", "SHUFFLE", 0.1, "alarms"),
            ),
        ),
        Shape(
            "wordcount",
            {"lines": 1, "split": 2, "count": 4, "report": 0.2},
            (
                Stream("lines", "split", "SHUFFLE"),
                Stream("split", "count", "FIELDS", 6.0),
                Stream("count", "report", "GLOBAL", 0.01),
            ),
        ),
        Shape(
            "etl",
            {"source": 1, "parse": 2, "range": 1, "bloom": 1, "interpolate": 2, "join": 1, "annotate": 1, "publish": 1},
            (
                Stream("source", "parse", "SHUFFLE"),
                Stream("parse", "range", "FIELDS", 5.0),
                Stream("range", "bloom", "FIELDS"),
                Stream("bloom", "interpolate", "FIELDS"),
                Stream("interpolate", "join", "FIELDS"),
                Stream("join", "annotate", "SHUFFLE", 0.2),
                Stream("annotate", "publish", "SHUFFLE"),
            ),
        ),
        Shape(
            "statistics",
            {"source": 1, "parse": 2, "average": 2, "kalman": 2, "regression": 1, "distinct": 1, "plot": 0.5},
            (
                Stream("source", "parse", "SHUFFLE"),
                Stream("parse", "average", "FIELDS", 5.0),
                Stream("parse", "kalman", "FIELDS", 5.0),
                Stream("parse", "distinct", "FIELDS", 5.0),
                Stream("kalman", "regression", "FIELDS"),
                Stream("average", "plot", "SHUFFLE", 0.1),
                Stream("regression", "plot", "SHUFFLE", 0.1),
                Stream("distinct", "plot", "SHUFFLE", 0.1),
            ),
        ),
        Shape(
            "flights",
            {"replay": 1, "parse": 2, "filter": 1, "enrich": 2, "routes": 2, "carriers": 1, "alerts": 1, "sink": 0.5},
            (
                Stream("replay", "parse", "SHUFFLE"),
                Stream("parse", "filter", "SHUFFLE"),
                Stream("filter", "enrich", "SHUFFLE", 0.95),
                Stream("enrich", "routes", "FIELDS"),
                Stream("enrich", "carriers", "FIELDS"),
                Stream("routes", "alerts", "SHUFFLE", 0.05),
                Stream("carriers", "alerts", "SHUFFLE", 0.05),
                Stream("alerts", "sink", "GLOBAL", 0.2),
            ),
        ),
    )
}
