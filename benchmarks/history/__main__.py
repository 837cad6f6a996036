"""Run the parts, keep what was measured, print and write the tables."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.history import logs, report
from benchmarks.history.knees import accuracy
from benchmarks.history.measure import Ran, run
from benchmarks.history.shapes import SHAPES
from benchmarks.history.shapes import accuracy as of_shape
from benchmarks.history.standalone import cluster

STORMPILOT = logs.ROOT / ".venv" / "bin" / "stormpilot"
RESULT = logs.ROOT / "build" / "bench" / "history.json"
PUBLISHED = logs.ROOT / "docs" / "results" / "history.md"
LOCAL = "local[2]"
LIMIT_S = 1200.0
SMALL = 0.01  # million rows: a log of an hour, mined again by both engines
REPEATED_TO = 30  # million rows: larger logs are mined once
STANDALONE = 10  # million rows at most
STEP_MIN, BUDGET_S = 120, 0.1
KNEE_DAYS = (7.0, 14.0)
KNEE_SEED = 1000  # the method was chosen on the logs of smaller ones
ITERATIONS, PATIENCE_S = 1000, 60.0  # of plans for forecasts: the same on a slow machine
LEADS_H = (1, 24)  # plans for the hour that comes, and for the highest of the day that comes
Row = dict[str, Any]


class Bench:
    """Rows measured so far; each is written at once, one that is measured anew replaces the old one."""

    def __init__(self, asked: argparse.Namespace):
        self.sizes = [int(s) for s in asked.sizes.split(",")]
        self.engine_sizes = [float(s) for s in asked.engine_sizes.split(",")]
        self.layer_sizes = [float(s) for s in asked.layer_sizes.split(",")]
        self.repeat, self.quick, self.knee_seed = asked.repeat, asked.quick, asked.knee_seed

    @property
    def rows(self) -> list[Row]:
        """All that was measured so far, by other runs too; what was never measured here is as it was published."""
        published, own = (
            {report.key(r): r for r in json.loads(f.read_text())["rows"]} if f.exists() else {}
            for f in (PUBLISHED.with_suffix(".json"), RESULT)
        )
        return [*{**published, **own}.values()]

    def keep(self, row: Row) -> None:
        """Write a row down."""
        rows = [r for r in self.rows if report.key(r) != report.key(row)] + [row]
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        report.write_json(RESULT, rows)
        print("  ".join(f"{k}={_short(v)}" for k, v in row.items() if not isinstance(v, list | dict)), flush=True)

    def times(self, size: int) -> range:
        """Repetitions of a size."""
        return range(self.repeat if size <= REPEATED_TO else 1)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def mine(bench: Bench) -> None:
    """`stormpilot trafficlog mine` as a user runs it, at each size."""
    for size in bench.sizes:
        log, rows = logs.mined_log(size)
        for i in bench.times(size):
            ran, _ = _mined(log, LOCAL)
            bench.keep({"part": "mine", "size": size, "repetition": i, "rows": rows, **_figures(ran)})


def engines(bench: Bench) -> None:
    """`trafficlog mine` by both engines as a user runs it, from a log of an hour on; the same numbers."""
    for size in bench.engine_sizes:
        log, rows = logs.engines_log(size)
        for i in range(bench.repeat if size < SMALL else 1):
            found = {}
            for engine in ("duckdb", "spark"):
                ran, found[engine] = _mined(log, LOCAL if engine == "spark" else None, "--engine", engine)
                row = {"part": "engines", "engine": engine, "size": size, "repetition": i, "rows": rows}
                bench.keep({**row, **_figures(ran)})
            if different := _differences(found["spark"], found["duckdb"]) - {"/engine"}:
                raise RuntimeError(f"{len(different)} numbers differ, first {min(different)}")


def layer(bench: Bench) -> None:
    """Cost of the dataframe layer on DuckDB, beside its SQL by hand."""
    for size in bench.layer_sizes:
        log, rows = logs.engines_log(size)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "layer.json"
            command = [sys.executable, "-m", "benchmarks.history.layer", str(log), str(out)]
            _checked(run(command, LIMIT_S), f"the layer on {log}")
            found = json.loads(out.read_text())
        for way, figures in found.items():
            bench.keep({"part": "layer", "engine": way, "size": size, "repetition": 0, "rows": rows, **figures})


def knees(bench: Bench) -> None:
    """Mined B(n) beside the planted ones, over many logs of one and of two weeks."""
    with tempfile.TemporaryDirectory() as folder:
        for days in KNEE_DAYS:
            bench.keep({"size": days, "repetition": 0, "rows": 0, **accuracy(Path(folder), days, bench.knee_seed)})


def shapes(bench: Bench) -> None:
    """Mined B(n) of nodes of shapes that the generator does not make."""
    for shape in SHAPES:
        bench.keep({"size": 14, "repetition": 0, "rows": 0, **of_shape(shape)})


def aggregate(bench: Bench) -> None:
    """The heaviest query of it by Spark and by DuckDB, one after the other, their results compared."""
    for size in bench.sizes:
        log, rows = logs.mined_log(size)
        for i in bench.times(size):
            found = {}
            for engine in ("spark", "duckdb"):
                with tempfile.TemporaryDirectory() as folder:
                    out = Path(folder) / "rows.json"
                    command = [sys.executable, "-m", "benchmarks.history.aggregate", engine, str(log), str(out), LOCAL]
                    ran = _checked(run(command, LIMIT_S), f"{engine} on {log}")
                    answer = json.loads(out.read_text())
                found[engine] = answer["rows"]
                row = {"part": "aggregate", "engine": engine, "size": size, "repetition": i, "rows": rows}
                bench.keep({**row, "query_s": answer["seconds"], **_figures(ran)})
            _same(found["spark"], found["duckdb"])


def standalone(bench: Bench) -> None:
    """The same log mined by `local[2]` and by a standalone cluster of two workers: the same numbers."""
    size = max((s for s in bench.sizes if s <= STANDALONE), default=min(bench.sizes))
    log, rows = logs.mined_log(size)
    _, expected = _mined(log, LOCAL)
    with cluster() as master:
        ran, found = _mined(log, master, "--conf", "spark.executor.memory=1500m")
    differences = _differences(expected, found)
    row = {"part": "standalone", "size": size, "repetition": 0, "rows": rows, **_figures(ran)}
    bench.keep({**row, "numbers": _numbers(expected), "differences": len(differences)})
    for path in sorted(differences):
        print(f"  {path} differs")


def replay(bench: Bench) -> None:
    """7 days of three topologies, all planners; as many days held out as replay takes by itself."""
    log, rows = logs.replayed_log(bench.quick)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(STORMPILOT),
            "trafficlog",
            "replay",
            "--log",
            str(log),
            "--master",
            LOCAL,
            "-f",
            "json",
            "-o",
            folder,
        ]
        command += ["--step", str(STEP_MIN), "--budget", str(BUDGET_S)]
        ran = _checked(run(command, LIMIT_S), f"replay of {log}")
    answer = json.loads(ran.out)
    for verdict in answer["verdicts"]:
        tries = {"as_it_was": verdict["asItWas"], "default": verdict["default"], "recommended": verdict["recommended"]}
        bench.keep(
            {
                "part": "replay",
                "size": verdict["topologyName"],
                "repetition": 0,
                "rows": rows,
                "steps": answer["steps"],
                "step_s": answer["stepS"],
                "budget_s": answer["budgetS"],
                "settings": len(verdict["tried"]),
                "planners": len({t["setting"]["planner"] for t in verdict["tried"]}),
                "setting": verdict["recommended"]["setting"],
                "kept_default": verdict["keptDefault"],
                "text": verdict["text"],
                "gain": verdict["gain"],
                "held_out_days": len(verdict["default"]["heldOutDays"]),
                "scores": {n: [t["score"], t["heldOutScore"]] for n, t in tries.items()},
                "overload_minutes": {n: t["heldOut"]["overloadMinutes"] for n, t in tries.items()},
                **_figures(ran),
            }
        )


def forecast(bench: Bench) -> None:
    """A week planned with and without profiles, which were mined of the two weeks before it."""
    log, rows = logs.foretold_log()
    split = f"{logs.FORETOLD_FROM:%Y-%m-%dT%H:%M:%S}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mined, config = folder / "mined.json", folder / "controller.yaml"
        command = [str(STORMPILOT), "trafficlog", "mine", "--log", str(log), "--master", LOCAL, "--until", split]
        took = _checked(run([*command, "-o", str(mined)], LIMIT_S), f"mining {log}")
        profiles = {
            m["thresholds"]["topologyName"]: m["profile"]["forecastErrorRatio"]
            for m in json.loads(mined.read_text())["topologies"]
        }
        for lead_h in LEADS_H:
            config.write_text(f"history: {{lead_s: {lead_h * 3600}}}\n")
            command = [str(STORMPILOT), "trafficlog", "replay", "--log", str(log), "--master", LOCAL, "-f", "json"]
            command += ["--since", split, "--step", "60", "--forecast", str(mined), "--config", str(config)]
            command += ["--planner", "best", "--param", f"iterations={ITERATIONS}", "--budget", str(PATIENCE_S)]
            ran = _checked(run(command, LIMIT_S), f"replay of {log}")
            answer = json.loads(ran.out)
            for verdict in answer["verdicts"]:
                tries = {"as it was": verdict["asItWas"]}
                tries |= {"forecast" if t["setting"]["forecast"] else "measured": t for t in verdict["tried"]}
                bench.keep(
                    {
                        "part": "forecast",
                        "engine": f"{lead_h} h",
                        "size": verdict["topologyName"],
                        "repetition": 0,
                        "rows": rows,
                        "lead_h": lead_h,
                        "steps": answer["steps"],
                        "step_s": answer["stepS"],
                        "iterations": ITERATIONS,
                        "error_ratio": profiles[verdict["topologyName"]],
                        "mine_s": took.seconds,
                        "tries": {n: {"score": t["score"], **_snake(t["chosenBy"])} for n, t in tries.items()},
                        **_figures(ran),
                    }
                )


PARTS: dict[str, Callable[[Bench], None]] = {
    "engines": engines, "layer": layer, "knees": knees, "shapes": shapes,
    "mine": mine, "aggregate": aggregate, "standalone": standalone, "replay": replay, "forecast": forecast,
}  # fmt: skip


def _mined(log: Path, master: str | None, *more: str) -> tuple[Ran, Any]:
    where = [] if master is None else ["--master", master]
    command = [str(STORMPILOT), "trafficlog", "mine", "--no-cache", "--log", str(log), *where, "-f", "json", *more]
    ran = _checked(run(command, LIMIT_S), f"mining {log} with {master or 'DuckDB'}")
    return ran, json.loads(ran.out)


def _checked(ran: Ran, what: str) -> Ran:
    if ran.code != 0:
        raise RuntimeError(f"{what} ended with {ran.code} after {ran.seconds:.0f} s:\n{ran.errors[-3000:]}")
    return ran


def _snake(figures: dict[str, float]) -> dict[str, float]:
    """Names of figures as the rows of this benchmark have them."""
    return {re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name): value for name, value in figures.items()}


def _figures(ran: Ran) -> Row:
    return {"seconds": ran.seconds, "cpu_s": ran.cpu_s, "peak_mb": ran.peak_mb, "at": int(time.time())}


def _same(spark: list[list[Any]], duckdb: list[list[Any]]) -> None:
    if len(spark) != len(duckdb):
        raise RuntimeError(f"Spark found {len(spark)} rows, DuckDB {len(duckdb)}")
    for a, b in zip(spark, duckdb, strict=True):
        if a[:4] != b[:4] or a[5] != b[5] or abs(a[4] - b[4]) > 1e-9 * max(abs(a[4]), 1.0):
            raise RuntimeError(f"Spark has {a}, DuckDB {b}")


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for n, x in value.items() for k, v in _leaves(x, f"{path}/{n}").items()}
    if isinstance(value, list):
        return {k: v for n, x in enumerate(value) for k, v in _leaves(x, f"{path}/{n}").items()}
    return {path: value}


def _numbers(found: Any) -> int:
    return sum(isinstance(v, int | float) for v in _leaves(found).values())


def _differences(expected: Any, found: Any) -> set[str]:
    """Where values that are not the same to nine digits; when it was mined does not count."""
    a, b = _leaves(expected), _leaves(found)
    different = set(a) ^ set(b)
    for path in set(a) & set(b):
        x, y = a[path], b[path]
        close = (
            abs(x - y) <= 1e-9 * max(abs(x), abs(y)) if isinstance(x, float) and isinstance(y, int | float) else x == y
        )
        if not close and not path.endswith("AtMs"):
            different.add(path)
    return different


def main() -> int:
    """Exit code 0: measured; whether the targets are met stands in the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas (of {', '.join(PARTS)})")
    parser.add_argument("--sizes", default="1,10,30,100", help="million rows of edges")
    parser.add_argument(
        "--engine-sizes", default="0.001,0.5,2,33,100", help="million rows of edges that both engines mine"
    )
    parser.add_argument("--layer-sizes", default="0.001,2", help="million rows of edges that the layer is measured on")
    parser.add_argument("--repeat", type=int, default=3, help=f"repetitions up to {REPEATED_TO} million rows")
    parser.add_argument("--knee-seed", type=int, default=KNEE_SEED, help="the first seed of the logs for B(n)")
    parser.add_argument("--quick", action="store_true", help="replay 3 days of one topology")
    parser.add_argument("--report", action="store_true", help="measure nothing: the tables of what is there")
    parser.add_argument(
        "--publish",
        action="store_true",
        help="write the tables to docs/results too; what was written there by hand stays",
    )
    asked = parser.parse_args()
    unknown = sorted(set(asked.only.split(",")) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with us
    bench = Bench(asked)
    for part in () if asked.report else asked.only.split(","):
        PARTS[part](bench)
    page = report.page(bench.rows)
    print(page)
    if asked.publish:
        report.write_json(PUBLISHED.with_suffix(".json"), bench.rows)
        PUBLISHED.write_text(report.merged(PUBLISHED.read_text() if PUBLISHED.exists() else "", report.wrapped(page)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as e:
        print(f"bench-history: {e}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("bench-history: stopped; what was measured is kept", file=sys.stderr)
        sys.exit(130)
