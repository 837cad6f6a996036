"""A topology to try a cluster with, the command line as a user runs it, and waiting with a deadline."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from streamparse import JavaSpout, ShellBolt, Topology

from stormpilot.local.cluster import LocalCluster
from stormpilot.local.workers import Worker
from stormpilot.nimbus import Nimbus
from waiting import until as wait_until

ECHO_BOLT = """
from streamparse import Bolt

class Echo(Bolt):
    outputs = ["word"]
    def process(self, tup):
        self.emit([tup.values[0]])
"""


class Words(Topology):
    """A spout out of Storm's own jars, so that the jar needs no class, and a Python bolt below it."""

    word_spout = JavaSpout.spec(
        name="words", full_class_name="org.apache.storm.testing.TestWordSpout", args_list=[], outputs=["word"]
    )
    echo_bolt = ShellBolt.spec(
        name="echo", command="streamparse_run", script="echo.Echo", inputs=[word_spout], outputs=["word"], par=2
    )


def stormpilot(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [str(Path(sys.executable).with_name("stormpilot")), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)


def submit_words(cluster: LocalCluster) -> list[Worker]:
    """Run `Words` on two workers, and return them when their Python components run too."""
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("resources/echo.py", ECHO_BOLT)
    conf = {"topology.workers": 2, "topology.acker.executors": 0}
    with Nimbus.connect(cluster.nimbus_address) as nimbus:
        location = nimbus.upload([jar.getvalue()])
        nimbus.submit("words", location, conf, Words.thrift_topology)
    wait_until(lambda: len(cluster.workers()) == 2 and len(components(cluster)) == 2, "2 workers and their components")
    return cluster.workers()


def components(cluster: LocalCluster) -> list[int]:
    """Process ids of the Python components."""
    return [p.pid for p in cluster.processes() if "echo.Echo" in p.argv]


def status(name: str) -> dict[str, Any]:
    """What `local status` says."""
    return dict(json.loads(stormpilot("local", "status", "--name", name, "-f", "json").stdout)[0])
