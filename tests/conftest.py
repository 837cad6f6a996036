"""Fixtures that start real processes: a ZooKeeper of its own, and one local Storm cluster for the whole run."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from kazoo.client import KazooClient

from clusters import running_cluster

if TYPE_CHECKING:
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.local.zookeeper import LocalZooKeeper

if "CI" not in os.environ:  # (there Hypothesis has a profile of its own, without a deadline too)
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    """Of several test processes none keeps what it compiles: numba lets two of them write one file, with either's code.

    `make build` compiles what planners need; what a test needs beyond that takes a moment in each process.
    """
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # this process hands tests out, and runs none
    from numba.core.caching import Cache

    Cache.save_overload = lambda self, sig, data: None
    gc.disable()  # until all tests are collected: they and what they import stay


def pytest_collection_finish() -> None:
    """No collection of garbage looks through the tests and modules again."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # libraries tell of what they think was lost; pytest looks for it twice before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed on a cluster of its own says what happened there: its files are gone by then."""
    report = yield
    scene = getattr(item, "funcargs", {}).get("scene")
    if report.when == "call" and report.failed and hasattr(scene, "told"):
        with suppress(Exception):
            report.sections.append(("what happened on the cluster", scene.told()))
    return report


@pytest.fixture(autouse=True)
def without_proxy(request: pytest.FixtureRequest) -> Iterator[None]:
    """Servers of tests are on this machine, which a proxy does not reach; containers may need one for packages."""
    with pytest.MonkeyPatch.context() as patch:  # (its own: a test may undo what is patched in it)
        if request.node.get_closest_marker("docker") is None:
            for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
                patch.delenv(name)
        yield


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[LocalZooKeeper]:
    """A running ZooKeeper of this test's own: `hosts`, `stop()`, `start()`, `pause()`, `resume()`."""
    from stormpilot.local.zookeeper import LocalZooKeeper

    with LocalZooKeeper(tmp_path / "zookeeper") as server:
        yield server


@pytest.fixture
def restore(zookeeper: LocalZooKeeper, tmp_path: Path) -> Callable[[], None]:
    """`restore()` starts this test's ZooKeeper anew with the data that it had when the test began."""
    data, backup = tmp_path / "zookeeper" / "data", tmp_path / "backup"
    zookeeper.stop()
    shutil.copytree(data, backup)
    zookeeper.start()

    def restored() -> None:
        zookeeper.stop()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        zookeeper.start()

    return restored


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate for localhost that is its own authority, and its key."""
    assert shutil.which("openssl"), "the tests of TLS make their certificate with the command openssl"
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


@pytest.fixture
def free_port() -> Iterator[Callable[[], int]]:
    """Ports that nobody else gets until the test is over; a server that sets SO_REUSEADDR can listen there."""
    from stormpilot.local.ports import Reservation

    ports = Reservation()
    yield lambda: ports.take()[0]
    ports.close()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A running local cluster with our scheduler, 4 supervisors x 4 slots; leave it as you found it."""
    from stormpilot.local.spec import PATIENT, ClusterSpec

    with running_cluster(ClusterSpec(name=f"tests-{os.getpid()}", conf=PATIENT), request.session) as cluster:
        yield cluster


@pytest.fixture
def expire_session() -> Callable[[KazooClient], None]:
    """Makes ZooKeeper expire the session of a connected client, as after a long silence.

    A second client takes the session over and closes it; the first one learns of it when it reconnects.
    """

    def expire(client: KazooClient) -> None:
        twin = KazooClient(hosts=",".join(f"{host}:{port}" for host, port in client.hosts), client_id=client.client_id)
        twin.start(timeout=300)
        twin.stop()
        twin.close()

    return expire
