"""The command line, for `python -m stormpilot` and for `spark-submit`."""

from __future__ import annotations

from stormpilot.cli import main

if __name__ == "__main__":
    main()
