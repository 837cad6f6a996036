"""Batch file write: 100 bytes are kept for every tuple; 10,000 of them go to a file at once."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp

from streamparse import Bolt

from micro_tasks.settings import Settings

BATCH = 10_000
LINE_BYTES = 100


class BatchFileWrite(Bolt):
    """Takes in a number, keeps a line for it, and sends the number and how many lines wait.

    Every task writes the same file again and again, and the disk has it before the next line is kept.
    """

    outputs = ["number", "waiting"]

    def initialize(self, storm_conf, context):
        """Name the file: in the folder of the configuration, else in a new one of the system's."""
        folder = Path(Settings.from_storm_conf(storm_conf).file_dir or mkdtemp(prefix="micro-file-"))
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"batch-{context['taskid']}.txt"
        self._lines: list[str] = []

    def process(self, tup):
        """Keep a line; write the batch when it is full."""
        number = tup.values[0]
        self._lines.append(f"{number}".ljust(LINE_BYTES - 1) + "\n")
        if len(self._lines) == BATCH:
            with self.file.open("w") as out:
                out.writelines(self._lines)
                out.flush()
                os.fsync(out.fileno())
            self._lines.clear()
        self.emit([number, len(self._lines)])
