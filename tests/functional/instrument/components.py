"""Components of somebody who never heard of us, run by `streamparse_run` and by `stormpilot_run`."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import time
from typing import Any

from streamparse import BatchingBolt, Bolt, ReliableSpout, Spout, TicklessBatchingBolt


class Upper(Bolt):
    outputs = ["line"]

    def process(self, tup: Any) -> None:
        self.emit([tup.values[0].upper()])


class Silent(Upper):
    auto_ack = False
    auto_anchor = False


class Binary(Upper):
    """Writes bytes to stdout's buffer, as pystorm's msgpack serializer does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        text = self.serializer.serialize_dict
        self.wrapper = self.serializer.output_stream  # its end would close the buffer
        self.serializer.output_stream = sys.stdout.buffer
        self.serializer.serialize_dict = lambda message: text(message).encode()


class Branching(Bolt):
    """Emits to its own streams, also directly and with task ids asked for."""

    outputs = ["line"]

    def process(self, tup: Any) -> None:
        self.emit(["a"], stream="errors")
        self.emit(["b"], stream="direct", direct_task=7)
        self.emit([self.emit(["c"], need_task_ids=True)])


class Batches(BatchingBolt):
    outputs = ["n"]
    ticks_between_batches = 0

    def process_batch(self, key: Any, tups: list[Any]) -> None:
        self.emit([len(tups)])


class Tickless(TicklessBatchingBolt):
    outputs = ["n"]
    secs_between_batches = 0.05

    def process_batch(self, key: Any, tups: list[Any]) -> None:
        for tup in tups:
            if tup.values[0] == "bad":
                raise RuntimeError("broken batch")
        self.emit([len(tups)])


class Numbers(Spout):
    outputs = ["n"]

    def initialize(self, storm_conf: Any, context: Any) -> None:
        self.n = 0

    def next_tuple(self) -> None:
        self.n += 1
        self.emit([self.n], tup_id=str(self.n))


class Reliable(ReliableSpout):
    outputs = ["n"]

    def next_tuple(self) -> None:
        self.emit([1], tup_id="a")


class Raising(Bolt):
    outputs: list[str] = []

    def process(self, tup: Any) -> None:
        raise RuntimeError("broken line")


class Surviving(Raising):
    exit_on_exception = False


class RaisingAtStart(Bolt):
    outputs: list[str] = []

    def initialize(self, storm_conf: Any, context: Any) -> None:
        raise RuntimeError("no database")


class Printing(Upper):
    """Prints by every way there is."""

    def initialize(self, storm_conf: Any, context: Any) -> None:
        print("printed in initialize")

    def process(self, tup: Any) -> None:
        print("printed", tup.values[0])
        sys.stdout.write("written\n")
        sys.stdout.flush()
        os.write(1, b"raw\n")
        ctypes.CDLL(None).dprintf(1, b"from C\n")
        subprocess.run(["echo", "from a child"], check=True)
        super().process(tup)


class Forking(Upper):
    """Works in child processes: one forked by hand that prints and ends at once, one by multiprocessing."""

    def process(self, tup: Any) -> None:
        pid = os.fork()
        if pid == 0:
            print("in the child")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        child = multiprocessing.get_context("fork").Process(target=burn)
        child.start()
        child.join()
        super().process(tup)


def burn() -> None:
    """Use 0.3 s of CPU in a child."""
    print("burning")
    end = time.process_time() + 0.3
    while time.process_time() < end:
        sum(range(1000))


class NoComponent:
    """A class that the runner cannot run."""
