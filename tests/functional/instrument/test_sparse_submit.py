"""A decorated topology submitted by streamparse's own command: what Nimbus gets has stream and collector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from doubles.fake_nimbus import FakeNimbus, serving
from stormpilot.instrument.topology import COLLECTOR_CLASS, COLLECTOR_ID

TOPOLOGY = """
from streamparse import Bolt, Spout, Topology
from stormpilot.instrument import LoadReporting, SpoutLoadReporting, load_reporting

class Source(SpoutLoadReporting, Spout):
    outputs = ["line"]

class Parse(LoadReporting, Bolt):
    outputs = []

@load_reporting
class Flights(Topology):
    source = Source.spec()
    parse = Parse.spec(inputs=[source])
"""


def test_a_decorated_topology_arrives_with_stream_and_collector(tmp_path: Path) -> None:
    (tmp_path / "topologies").mkdir()
    (tmp_path / "topologies" / "flights.py").write_text(TOPOLOGY)
    (tmp_path / "prebuilt.jar").write_bytes(b"jar")
    with serving(FakeNimbus()) as nimbus:
        prod = {
            "user": "",
            "nimbus": f"127.0.0.1:{nimbus.port}",
            "workers": ["localhost"],
            "use_ssh_for_nimbus": False,
            "use_virtualenv": False,
            "log": {"path": str(tmp_path), "level": "info"},
        }
        config = {"serializer": "json", "topology_specs": "topologies/", "virtualenv_specs": "", "envs": {"prod": prod}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        done = subprocess.run(
            [Path(sys.executable).parent / "sparse", "submit", "-e", "prod", "-n", "flights", "-j", "prebuilt.jar"],
            cwd=tmp_path,
            env=os.environ | {"LEIN_ROOT": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    (sent,) = nimbus.submitted
    shell = sent.topology.bolts[COLLECTOR_ID].bolt_object.shell
    assert (shell.execution_command, shell.script) == ("streamparse_run", f"-s json {COLLECTOR_CLASS}")
    assert "stormpilot_load" in sent.topology.spouts["source"].common.streams
    assert "stormpilot_load" in sent.topology.bolts["parse"].common.streams
