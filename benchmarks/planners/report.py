"""Writes what was measured: JSON, Markdown with the machine's size, plots; and prints the tables."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import textwrap
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.planners import plots, tables, unlike_report
from benchmarks.planners.bench import Bench
from benchmarks.planners.published import merged, read_rows, write_rows
from benchmarks.planners.rows import Row
from benchmarks.planners.targets import Table, all_targets

PAGES = ("planners", *unlike_report.PAGES)
PACKAGES = ("numpy", "numba", "ortools", "mtkahypar", "pymetis")


def write(bench: Bench, json_file: Path, folder: Path) -> None:
    """JSON to `json_file`, pages with their rows and plots to `folder`, whose rows of other parts stay."""
    rows = merged((r for name in PAGES for r in read_rows(folder / f"{name}.json")), bench.store.rows())
    found = [t for t in all_targets(rows) if t.samples]  # of the parts that were measured
    machine = _machine()
    report = {
        "machine": machine,
        "quick": bench.quick,
        "targets": [dataclasses.asdict(t) for t in found],
        "rows": rows,
    }
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    folder.mkdir(parents=True, exist_ok=True)
    earlier = {r.part for r in rows if not bench.store.has(r)}
    unlike_report.write(rows, earlier, machine, folder)
    rows = [r for r in rows if r.part not in unlike_report.ALL_PARTS]  # which have pages of their own
    if not rows:
        return
    table = Table(rows)
    drawn = plots.write(table, folder)
    lines = [
        "# Planners compared",
        "",
        "Written by `make bench-planners`"
        + (" in its **quick form: too few and too small instances to judge by**." if bench.quick else ".")
        + " `inter-node traffic` is tuples/s between executors on different nodes, by measured pairs.",
        "",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        "",
        *unlike_report.measured_earlier({r.part for r in rows} & earlier),
        *_shared(rows),
        "## Targets",
        "",
        tables.targets(found),
    ]
    for title, text, section in tables.SECTIONS:
        body = section(table)
        if body:
            lines += ["", f"## {title}", "", text, "", body]
    for file in drawn:
        lines += ["", f"![{file.stem}]({file.name})"]
    wrapped = (textwrap.wrap(x, 120) if x[:1] not in "|#!" and "\n" not in x else [x] for x in lines)
    page = "\n".join("\n".join(w) for w in wrapped) + "\n"
    (folder / "planners.md").write_text(page)
    write_rows(rows, folder / "planners.json")
    print(page)
    if bench.store.stale:
        bench.console.print(
            f"{bench.store.stale} measurements of older sources are not shown; run it again to renew them"
        )


def _shared(rows: Sequence[Row]) -> list[str]:
    shared = sum(r.shared for r in rows)
    if not shared:
        return []
    return [
        f"{shared:,} of {len(rows):,} figures were taken while other work used the machine (`--shared`). Their seconds "
        "are **CPU seconds of all threads**, and so are the budgets of the planners that ran in the benchmark's own "
        "process: what a planner on several threads gets is less than on the clock of an idle machine. The budget of a "
        "whole process is on the clock, as are milliseconds of Storm's schedulers and of partitioners alone. A target "
        "on time that CPU seconds miss is left open: the clock of an idle machine may keep it.",
        "",
    ]


def _machine() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next(
        (line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine()
    )
    versions = {p: importlib.metadata.version(p) for p in PACKAGES}
    return {
        "cores": str(os.cpu_count()),
        "CPU": model,
        "memory": f"{memory:.0f} GiB",
        "Python": platform.python_version(),
        "Storm": "2.8.3",
        **versions,
    }


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []
