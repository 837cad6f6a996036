"""A controller process that kills itself around the write of its first plan: for tests of what it leaves behind.

python -m doubles.dying_controller controller.yaml before|after
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stormpilot import logs
from stormpilot.config import load
from stormpilot.control import signals
from stormpilot.control.daemon import Daemon
from stormpilot.messages.core import HistoryEntry
from stormpilot.planner import compute
from stormpilot.publish.publisher import Publisher


def main() -> None:
    config, moment = Path(sys.argv[1]), sys.argv[2]
    publish = Publisher.publish

    def dying(self: Publisher, entries: Sequence[HistoryEntry], versions: Mapping[str, int], *rest: object) -> None:
        if moment == "after":
            publish(self, entries, versions, *rest)  # type: ignore[call-arg]
        os.kill(os.getpid(), signal.SIGKILL)

    Publisher.publish = dying  # type: ignore[method-assign, assignment]
    logs.configure("info")
    signals.run(Daemon(load(config), compute, "online", "default"))


if __name__ == "__main__":
    main()
