"""For `spark-submit`: the command `stormpilot history mine` in the Spark that started us."""

from __future__ import annotations

import sys
from pathlib import Path

# As a script we are found by our folder, in which `profile` is not Python's.
sys.path[:] = [p for p in sys.path if Path(p).resolve() != Path(__file__).resolve().parent]

from stormpilot.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.argv[1:1] = ["history", "mine"]
    main()
