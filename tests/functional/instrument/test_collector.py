"""The collector as a process of its own, with a ZooKeeper that is never there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from multilang import frame, handshake, heartbeat, log_lines, messages_of, tuple_message, without_ours

from stormpilot.instrument.reporting import LOAD_STREAM
from stormpilot.instrument.topology import COLLECTOR_CLASS

BIN = Path(sys.executable).parent
LOADS = 3000


@pytest.mark.parametrize("runner", ["stormpilot_run", "streamparse_run"])
def test_without_zookeeper_it_takes_every_load_and_ends_with_its_worker(runner: str, tmp_path: Path) -> None:
    """Also by `streamparse_run`, for people who keep `sparse submit`. Its threads must not keep it alive."""
    conf = {"storm.id": "flights-1-1", "storm.zookeeper.servers": ["127.0.0.1"], "storm.zookeeper.port": 1}
    first = handshake(
        tmp_path,
        conf,
        task=9,
        component="stormpilot-collector",
        streams=[],
        tasks={3: "parse", 9: "stormpilot-collector"},
    )
    loads = [
        tuple_message(str(n), [json.dumps({"task": 3, "startMs": 1, "seq": n})], task=3, stream=LOAD_STREAM)
        for n in range(LOADS)
    ]
    done = subprocess.run(
        [BIN / runner, f"-s json {COLLECTOR_CLASS}"],
        cwd=tmp_path,
        input=b"".join(frame(m) for m in [first, *loads, heartbeat()]),
        capture_output=True,
        timeout=300,
        check=False,
    )
    sent = messages_of(done.stdout)
    assert [m["id"] for m in without_ours(sent) if m["command"] == "ack"] == [str(n) for n in range(LOADS)]
    assert len(log_lines(sent)) <= 1
    assert done.returncode == 2
