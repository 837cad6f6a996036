"""The logs that are measured on: generated once per size, kept under `build/bench/history-logs`."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stormpilot.generate.logs import Spec, generate

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "bench" / "history-logs"
SEED = 11
MINED = Spec(days=30, topologies=1)
REPLAYED = Spec(days=7, topologies=3, bursts_per_day=8, overloads_per_day=1.0)
FORETOLD = Spec(days=22, topologies=3, bursts_per_day=0, overloads_per_day=0)
"""Daily peaks, weekends, drift, noise and lost nodes; no bursts, which no profile can foretell."""
FORETOLD_FROM = datetime.fromtimestamp(FORETOLD.start_ms / 1000, UTC) + timedelta(days=15)
"""Profiles are made of the 15 days before, plans for the 7 days after."""


def mined_log(million_rows: int) -> tuple[Path, int]:
    """A log of 30 days with at least so many rows of edges: its folder and how many it has."""
    return _made(f"edges-{million_rows}m", MINED.with_edge_rows(million_rows * 1_000_000))


def engines_log(million_rows: float) -> tuple[Path, int]:
    """A log for both engines: below a million an hour of a small topology, or windows of five minutes."""
    if million_rows >= 1:
        return mined_log(round(million_rows))
    if million_rows < 0.01:
        return _made("edges-hour", Spec(days=1 / 24, parallelism=1, nodes=2))
    coarse = Spec(days=30, window_s=300).with_edge_rows(round(million_rows * 1_000_000))
    return _made(f"edges-{million_rows:g}m-coarse", coarse)


def replayed_log(quick: bool) -> tuple[Path, int]:
    """A log of 7 days (quick: 3) and 3 topologies."""
    import msgspec

    spec = msgspec.structs.replace(REPLAYED, days=3.0, topologies=1) if quick else REPLAYED
    return _made("replay-quick" if quick else "replay", spec)


def foretold_log() -> tuple[Path, int]:
    """A log of 22 days and 3 topologies with a peak each day."""
    return _made("foretold", FORETOLD)


def _made(name: str, spec: Spec) -> tuple[Path, int]:
    folder, done = FOLDER / name, FOLDER / f"{name}.rows"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        truth = generate(folder, spec, SEED)
        done.write_text(str(truth.rows["edges"]))
    return folder, int(done.read_text())
