"""For `spark-submit`: the command `stormpilot history mine` in the Spark that started us."""

from __future__ import annotations

import sys

from stormpilot.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["history", "mine"]
    main()
