"""install.md, runbook.md and uninstall.md of docs/guide, word for word, on a stock Storm in containers.

Blocks below a comment `<!-- run on: HOST -->` are run, in the order of the pages, by bash in the container of that
host; one with `until it succeeds` is tried again for a while. Restarting Nimbus is what the pages leave to the reader.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scene import until

pytestmark = pytest.mark.timeout(3600)
REPOSITORY = Path(__file__).resolve().parents[2]
FILES = "/srv/stormpilot"
BLOCK = re.compile(r"<!-- run on: (\w+)(, until it succeeds)? -->\n```sh\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Commands of a page."""

    host: str
    patient: bool
    commands: str


def blocks(page: str) -> list[Block]:
    text = (REPOSITORY / "docs" / "guide" / page).read_text("utf-8")
    return [Block(m[1], bool(m[2]), m[3]) for m in BLOCK.finditer(text)]


def docker(*arguments: str, check: bool = True, timeout_s: float = 600) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)
    assert not check or done.returncode == 0, f"docker {arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


class Hosts:
    """ZooKeeper, Nimbus and one supervisor, each a stock container; `dist/` lies in `FILES`."""

    def __init__(self) -> None:
        self.name = f"stormpilot-pages-{time.time_ns()}"
        docker("network", "create", self.name)

    def start(self) -> None:
        self._run("zookeeper", "zookeeper:3.9")
        self._run("nimbus", "storm:2.8", "storm", "nimbus")
        self._run("worker", "storm:2.8", "storm", "supervisor")
        for host in ("nimbus", "worker"):
            docker("exec", self.container(host), "mkdir", FILES)
            docker("cp", f"{REPOSITORY}/dist/.", f"{self.container(host)}:{FILES}")
        docker("cp", f"{REPOSITORY}/topologies", f"{self.container('nimbus')}:{FILES}/topologies")
        self.wait_for_nimbus()

    def _run(self, host: str, image: str, *command: str) -> None:
        arguments = ["run", "-d", "--name", self.container(host), "--hostname", self.address(host)]
        arguments += ["--network", self.name, "--network-alias", self.address(host)]
        docker(*arguments, image, *command)

    @staticmethod
    def address(host: str) -> str:
        return "worker-1" if host == "worker" else host

    def container(self, host: str) -> str:
        return f"{self.name}-{host}"

    def sh(self, host: str, commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "exec", "-u", "root", "-w", FILES, self.container(host), "bash", "-euc", commands],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def run(self, block: Block) -> str:
        """Run a block; fails with what it printed."""
        deadline = time.monotonic() + (240 if block.patient else 0)
        while True:
            done = self.sh(block.host, block.commands)
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < deadline, f"{block.commands}\n{done.stdout}\n{done.stderr}"
            time.sleep(3)

    def restart_nimbus(self) -> None:
        """As an operator would: end the daemon, start it; other processes of the host are not Nimbus's."""
        docker("restart", self.container("nimbus"))
        self.wait_for_nimbus()

    def wait_for_nimbus(self) -> None:
        listening = "exec 3<>/dev/tcp/127.0.0.1/6627"
        until(lambda: self.sh("nimbus", listening).returncode == 0, "Nimbus to listen")

    def workers(self) -> list[str]:
        """Worker JVMs of the worker host: pid and start."""
        program = (
            'for p in /proc/[0-9]*; do c=$(tr "\\0" " " <$p/cmdline 2>/dev/null) || continue; '
            'case "$c" in *LogWriter*) ;; *org.apache.storm.daemon.worker.Worker\\ *) '
            'echo "${p#/proc/} $(cut -d" " -f22 $p/stat)" ;; esac; done'
        )
        return sorted(self.sh("worker", program).stdout.splitlines())

    def remove(self) -> None:
        for host in ("worker", "nimbus", "zookeeper"):
            docker("rm", "-f", "-v", self.container(host), check=False)
        docker("network", "rm", self.name, check=False)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    assert list((REPOSITORY / "dist").glob("*.whl")), "the pages install dist/: run make dist"
    made = Hosts()
    try:
        made.start()
        yield made
    finally:
        made.remove()


def test_the_pages_have_blocks_for_every_host() -> None:
    assert {b.host for b in blocks("install.md")} == {"nimbus", "worker"}
    assert len(blocks("install.md")) >= 7
    assert blocks("runbook.md")
    assert len(blocks("uninstall.md")) >= 4


def test_installed_operated_and_taken_out_word_for_word(hosts: Hosts) -> None:
    install = blocks("install.md")
    hosts.run(install[0])
    hosts.restart_nimbus()
    for block in install[1:]:
        hosts.run(block)
    for block in blocks("runbook.md"):
        hosts.run(block)
    until(lambda: bool(hosts.workers()), "workers")
    workers = hosts.workers()

    stop, line, jar, rest = blocks("uninstall.md")
    hosts.run(stop)
    hosts.run(line)
    hosts.restart_nimbus()
    hosts.run(jar)
    # Storm's own scheduler is there and has had a round: it places another topology, beside what runs.
    until(lambda: hosts.sh("nimbus", 'grep -q "Using default scheduler" /logs/nimbus.log').returncode == 0, "it")
    hosts.run(Block("nimbus", False, install[-3].commands.replace("wordcount_comm", "wordcount_comm -N another")))
    until(lambda: len(hosts.workers()) > len(workers), "workers of a topology that Storm places")
    assert set(workers) <= set(hosts.workers()), "a worker restarted"
    for name in ("wordcount_comm", "another"):  # what the page says comes first: nothing writes our znodes any more
        assert hosts.sh("nimbus", f"storm kill {name} -w 0").returncode == 0
    until(lambda: not hosts.workers(), "the topologies to end")
    hosts.run(rest)
    gone = hosts.sh("nimbus", "ls -d /opt/stormpilot /etc/stormpilot /var/lib/stormpilot /var/cache/stormpilot")
    assert gone.stdout == ""
    scheduler = hosts.sh("nimbus", 'grep -c PilotScheduler "$STORM_CONF_DIR/storm.yaml" || true').stdout.strip()
    assert scheduler == "0"
