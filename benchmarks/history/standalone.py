"""A Spark standalone cluster on loopback: a master and two workers of one core each, for one measurement."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_S = 120.0
WORKERS = 2
MEMORY = "2g"


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """The master's URL; every process of it is ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="spark-") as folder, contextlib.ExitStack() as stack:
        where = Path(folder)
        master = _start(
            stack, where, "master", "org.apache.spark.deploy.master.Master", "--port", "0", "--webui-port", "0"
        )
        url = _said(master, where / "master.log", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for i in range(WORKERS):
            options = ("-c", "1", "-m", MEMORY, "-d", str(where / f"work-{i}"), "--webui-port", "0", url)
            worker = _start(stack, where, f"worker-{i}", "org.apache.spark.deploy.worker.Worker", *options)
            _said(worker, where / f"worker-{i}.log", "Successfully registered with master")
        yield url


def _start(stack: contextlib.ExitStack, where: Path, name: str, main: str, *options: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m", "SPARK_HOME": str(home)}
    log = stack.enter_context((where / f"{name}.log").open("wb"))
    process = subprocess.Popen(
        [str(home / "bin" / "spark-class"), main, "--host", "127.0.0.1", *options],
        stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True, cwd=where,
    )  # fmt: skip
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        found = re.search(pattern, text)
        if found:
            return found.group(found.lastindex or 0)
        if process.poll() is not None:
            break
        time.sleep(0.2)
    raise RuntimeError(f"{log.stem} of the Spark cluster did not start:\n{log.read_text(errors='replace')[-2000:]}")
