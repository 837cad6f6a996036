"""Sizing problems for tests: the paper's linear micro topology (docs/reference/sizing.example.yaml), and small ones."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from stormpilot.sizing.performance import Performance, Point
from stormpilot.sizing.problem import Component, Problem, Shuffle, Slot, Static, Stream, VmSize, parse

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "sizing.example.yaml"


@functools.cache
def linear_topology() -> Problem:
    """xml -> pi -> file -> blob -> table, each with selectivity 1."""
    return parse(EXAMPLE.read_text(), str(EXAMPLE))


def performance(name: str) -> Performance:
    """One of the paper's performance models."""
    return next(m for m in linear_topology().models if m.name == name)


def model(name: str, *points: tuple[int, float, float, float]) -> Performance:
    """A performance model from (threads, rate, CPU share, memory share)."""
    return Performance(
        name=name, points=[Point(threads=q, rate_tps=i, cpu_share=c, memory_share=m) for q, i, c, m in points]
    )


def problem(
    models: Sequence[Performance],
    streams: Sequence[tuple[str, str, float]],
    *,
    rate_tps: float = 100.0,
    vm_slots: Sequence[int] = (4, 2, 1),
    shares: Mapping[str, float] | None = None,
    shuffle: Shuffle = "even",
) -> Problem:
    """A component for each model, named like it; components without one need nothing.

    `streams` are (from, to, selectivity).
    """
    known = {m.name for m in models}
    names = list(dict.fromkeys([n for a, b, _ in streams for n in (a, b)] or sorted(known)))
    nothing = Static(cpu_share=0.0, memory_share=0.0)
    return Problem(
        name="t",
        rate_tps=rate_tps,
        components=[
            Component(
                id=n,
                model=n if n in known else None,
                static=None if n in known else nothing,
                source_share=(shares or {}).get(n, 1.0),
                inputs=[Stream(component=a, selectivity=s) for a, b, s in streams if b == n],
            )
            for n in names
        ],
        models=list(models),
        slot=Slot(cpu_mhz=1000.0, memory_mb=1000.0),
        vms=[VmSize(name=f"vm{n}", slots=n) for n in vm_slots],
        shuffle=shuffle,
    )
