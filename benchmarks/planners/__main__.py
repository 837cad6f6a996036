"""Run the comparison (all of it, or parts), then write and print what was found."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from benchmarks.planners import report, unlike
from benchmarks.planners.bench import Bench
from benchmarks.planners.parts import PARTS
from benchmarks.planners.rows import ROOT
from stormpilot.errors import StormpilotError

FOLDER = ROOT / "build" / "bench"


def main() -> int:
    """Exit code 0: measured; whether the targets are met stands in the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planners", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas (of {', '.join(PARTS)})")
    parser.add_argument("--quick", action="store_true", help="a small version of each part, in files of its own")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of models and planners (a run of an hour and more)")
    parser.add_argument("--shared", action="store_true", help="other work is going on: take CPU seconds for seconds")
    parser.add_argument("--set", type=unlike.folder, help="clusters with a best-known.json (part set)")
    parser.add_argument("--report", action="store_true", help="measure nothing: tables and plots of what is there")
    parser.add_argument("--publish", action="store_true", help="write the tables and plots to docs/results too")
    asked = parser.parse_args()
    unknown = sorted(set(asked.only.split(",")) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    console = Console(soft_wrap=True)
    folder = FOLDER / ("planners-quick" if asked.quick else "planners")
    bench = Bench(folder, asked.quick, console, asked.seeds, asked.shared, asked.set)
    if not asked.report:
        for part in asked.only.split(","):
            console.rule(part)
            PARTS[part](bench)
    name = "planners-quick" if asked.quick else "planners"
    report.write(bench, FOLDER / f"{name}.json", ROOT / "docs" / "results" if asked.publish else FOLDER / name)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StormpilotError as e:
        print(f"bench-planners: {e}", file=sys.stderr)
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        print("bench-planners: stopped; what was measured is kept, run it again to go on", file=sys.stderr)
        sys.exit(130)
