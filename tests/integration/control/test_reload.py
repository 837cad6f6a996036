"""SIGHUP makes a controller process read its file anew: a good one is used, a bad one leaves the old one in force."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import ClusterSnapshot, decode
from stormpilot.zookeeper.paths import Paths

from .conftest import LASTING_S, SETTINGS

pytestmark = pytest.mark.zookeeper

ID = "flights-1-1763690000"
SPREAD = everywhere({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)})
STORMPILOT = Path(sys.executable).with_name("stormpilot")
Play = Callable[[str, ClusterSnapshot], ShimDouble]


class Running:
    """A controller process; `write` changes its file and tells it so."""

    def __init__(self, folder: Path, text: str):
        self.file, self.log = folder / "controller.yaml", folder / "log"
        self.file.write_text(text)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([STORMPILOT, "run", self.file], stdout=log, stderr=log)

    def write(self, text: str) -> None:
        self.file.write_text(text)
        self.process.send_signal(signal.SIGHUP)

    def logged(self, *words: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return any(all(w in line for w in words) for line in self.log.read_text().splitlines())


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    started: list[Running] = []

    def run_one(text: str) -> Running:
        started.append(Running(tmp_path, text))
        return started[-1]

    yield run_one
    for controller in started:
        controller.process.kill()
        controller.process.wait(300)


def test_a_changed_mode_is_followed_and_a_broken_file_changes_nothing(
    shared_zookeeper: LocalZooKeeper, paths: Paths, play: Play, run: Callable[[str], Running]
) -> None:
    text = SETTINGS.format(hosts=shared_zookeeper.hosts, root=paths.root, session_s=LASTING_S)
    advising = text.replace("mode: act", "mode: advise")
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    controller = run(advising)

    def state() -> ControllerState | None:
        if not shim.client.exists(paths.controller):
            return None
        return decode(shim.client.get(paths.controller)[0], ControllerState, paths.controller)

    def mode() -> str | None:
        found = state()
        return next((v.mode for v in found.topologies if v.id == ID), None) if found else None

    until(lambda: mode() == "advise", "the first cycle")

    controller.write(advising.replace("mode: advise", "mode: atc"))
    until(lambda: controller.logged("the old one stays", "decide.mode"), "the broken file to be refused")
    refused = state()
    assert refused is not None
    until(lambda: (s := state()) is not None and s.cycles > refused.cycles + 1, "cycles after the broken file")
    assert mode() == "advise"
    assert not shim.applied

    acting = advising.replace("mode: advise", "mode: act").replace("period_s: 1,", "period_s: 2,")
    controller.write(acting.replace("api: {enabled: false}", "api: {enabled: false, port: 1}"))
    until(lambda: mode() == "act", "the new mode")
    assert controller.logged("configuration reloaded", "cycle.period_s, decide.mode")
    assert controller.logged("need a restart", "api.port")
    until(lambda: shim.applied, "a plan, now that it may act")
    last = state()
    assert last is not None
    assert last.period_s == 2
