"""Runs the parts, prints their tables, writes `build/bench/react.json`; `--publish` also docs/results/react.md.

A part that is not run, and a setting, keep the figures of their last run, which are in the JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.command import exit_with, say
from benchmarks.control.__main__ import machine
from benchmarks.react import held, page, step

RESULT = Path("build/bench/react.json")
PUBLISHED = Path("docs/results/react.md")
PARTS = ("step", "held")


def main() -> int:
    """Run what is asked for; 0: measured."""
    parser = argparse.ArgumentParser(prog="make bench-react", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="parts to run [default: all]")
    parser.add_argument("--report", action="store_true", help="run nothing: the tables of the last runs")
    parser.add_argument("--repeat", type=int, default=3, help="how often each is measured")
    parser.add_argument("--within-s", type=float, default=1200.0, help="step: no step of a setting is begun after it")
    settings = [s.name for s in step.SETTINGS]
    parser.add_argument("--setting", choices=settings, action="append", help="step: settings to run [default: all]")
    parser.add_argument("--publish", action="store_true", help=f"write the tables to {PUBLISHED}")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    kept = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    results: dict[str, Any] = {part: kept[part] for part in PARTS if isinstance(kept.get(part), dict)}

    def keep(part: str, rows: list[dict[str, Any]]) -> None:
        """Write what there is: a later setting may fail."""
        old = results.get(part, {"rows": []})["rows"] if part == "step" else []
        new = {r.get("setting") for r in rows}
        told = [{**r, "machine": r.get("machine") or machine()} for r in rows]
        results[part] = {"machine": machine(), "rows": [r for r in old if r["setting"] not in new] + told}
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps({"benchmark": "react", **results}, indent=1) + "\n")

    for part in () if arguments.report else arguments.only or PARTS:
        say(f"part {part}")
        if part == "step":
            for setting in step.SETTINGS:
                if setting.name in (arguments.setting or [setting.name]):
                    keep(part, [step.run(setting, arguments.repeat, arguments.within_s, say)])
        else:
            rows: list[dict[str, Any]] = []
            for _ in range(arguments.repeat):
                rows.append({**held.run(say), "machine": machine()})
                keep(part, rows)
    screen = Console()
    for table in page.tables(results):
        screen.print(table)
    screen.print(f"written to {arguments.output}")
    if arguments.publish:
        PUBLISHED.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(arguments.output, PUBLISHED.with_suffix(".json"))
        PUBLISHED.write_text(page.page(results, settings))
    return 0


if __name__ == "__main__":
    exit_with("bench-react", main)
