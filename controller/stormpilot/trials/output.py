"""A performance model as a file that `stormpilot size` reads, and its plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from stormpilot.errors import INSTALL_HISTORY, UnreachableError, UsageError
from stormpilot.sizing.performance import Performance
from stormpilot.sizing.problem import Component, Problem, Slot, Static, Stream, VmSize
from stormpilot.sizing.profiling import Trial
from stormpilot.trials.slot import SlotSize

SOURCE = "source"
"""The component of the file that sends to the one that was measured."""
UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}
"""Formats of plots, with what matplotlib is to write for no moment to be in the file."""


def problem(model: Performance, slot: SlotSize) -> Problem:
    """The component behind a source, at the best rate of a slot: a whole file for `size`, which others can refer to."""
    idle = Static(threads=1, cpu_share=0.0, memory_share=0.0)
    return Problem(
        name=model.name,
        rate_tps=model.best.rate_tps,
        slot=Slot(cpu_mhz=round(slot.cores * slot.mhz, 1), memory_mb=round(slot.memory_mb, 1)),
        vms=[VmSize(name="one-slot", slots=1)],
        components=[
            Component(id=SOURCE, static=idle),
            Component(id=model.name, model=model.name, inputs=[Stream(component=SOURCE)]),
        ],
        models=[model],
    )


def write(file: Path, of: Problem) -> None:
    """Write the file."""
    try:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(of), indent=1) + b"\n")
    except OSError as e:
        raise UsageError(f"{file}: cannot write the model: {e.strerror}") from e


def plot(file: Path, name: str, peaks: Sequence[Trial], trials: Sequence[Trial]) -> None:
    """Peak rate, CPU and memory over threads, with every trial, as the file's ending says: .svg, .png or .pdf.

    `UnreachableError` without matplotlib.
    """
    try:
        import matplotlib
    except ImportError:
        raise UnreachableError(f"a plot needs matplotlib; {INSTALL_HISTORY}") from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": name, "font.size": 9, "text.parse_math": False})
    from matplotlib import pyplot

    kind = file.suffix.lower().removeprefix(".")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    shares = axes.twinx()
    for stable, mark, what in ((True, "o", "stable"), (False, "x", "not stable")):
        some = [t for t in trials if t.stable is stable and t.rate_tps > 0]
        axes.plot(
            [t.threads for t in some], [t.rate_tps for t in some], mark, color="0.7", ms=4, label=f"trial, {what}"
        )
    threads = [p.threads for p in peaks]
    axes.plot(threads, [p.rate_tps for p in peaks], "o-", label="peak rate")
    shares.plot(threads, [100 * p.cpu_share for p in peaks], "s--", color="tab:red", label="CPU")
    shares.plot(threads, [100 * p.memory_share for p in peaks], "^--", color="tab:green", label="memory")
    axes.set(xlabel="threads on the slot", ylabel="tuples/s", title=name, xticks=threads)
    top = max(p.rate_tps for p in peaks)
    axes.set_ylim(0, 1.4 * top)
    shares.set(ylabel="% of the slot", ylim=(0, max(100.0, *(105 * p.cpu_share for p in peaks))))
    axes.grid(alpha=0.3)
    lines = [*axes.get_lines(), *shares.get_lines()]
    names = [str(line.get_label()) for line in lines]
    axes.legend(lines, names, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=5, fontsize=7, frameon=False)
    figure.tight_layout()
    try:
        figure.savefig(file, format=kind, metadata=UNDATED[kind])
    except OSError as e:
        raise UsageError(f"{file}: cannot write the plot: {e.strerror}") from e
    finally:
        pyplot.close(figure)
