"""A Nimbus that speaks real Thrift over a real socket, and remembers what it was sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from streamparse import thrift as storm
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TApplicationException, TProcessor
from thriftpy2.transport import TFramedTransportFactory, TSocket, TTransportException

MOST_BYTES = 1024 * 1024
"""`nimbus.thrift.max_buffer_size`: Nimbus hangs up on a larger frame, as the first bytes of TLS and of SASL say."""


@dataclass
class Submitted:
    """One submitTopologyWithOpts."""

    name: str
    jar: bytes
    conf: str
    topology: Any
    active: bool


@dataclass
class FakeNimbus:
    """State and handlers; `leader` is the (host, port) that it says leads, itself unless set."""

    port: int = 0
    host: str = "127.0.0.1"
    leader: tuple[str, int] | None = None
    leading: bool = True
    supervisors: list[str] = field(default_factory=lambda: ["node-1", "node-2", "node-3"])
    running: dict[str, str] = field(default_factory=dict)
    refuse: str | None = None
    submitted: list[Submitted] = field(default_factory=list)
    killed: list[tuple[str, int]] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    polls_until_killed: int = 2
    polls_until_listed: int = 0
    hangs_up: bool = False

    def getLeader(self) -> Any:  # noqa: N802
        if self.leader is None and not self.leading:
            raise _internal_error("no leader")
        host, port = self.leader or (self.host, self.port)
        return storm.NimbusSummary(host=host, port=port, uptime_secs=1, isLeader=True, version="2.8.3")

    def getClusterInfo(self) -> Any:  # noqa: N802
        if self.hangs_up:
            raise ConnectionAbortedError
        for name, status in list(self.running.items()):
            if status == "KILLED":
                self.polls_until_killed -= 1
                if self.polls_until_killed <= 0:
                    del self.running[name]
        listed = dict(self.running)
        if self.submitted and self.polls_until_listed > 0:
            self.polls_until_listed -= 1
            listed.pop(self.submitted[-1].name, None)
        return storm.ClusterSummary(
            supervisors=[
                storm.SupervisorSummary(
                    host=host, uptime_secs=9, num_workers=4, num_used_workers=1, supervisor_id=f"id-{host}"
                )
                for host in self.supervisors
            ],
            topologies=[
                storm.TopologySummary(
                    id=f"{name}-1-1", name=name, num_tasks=1, num_executors=1, num_workers=1, uptime_secs=1, status=s
                )
                for name, s in listed.items()
            ],
            nimbuses=[],
        )

    def isTopologyNameAllowed(self, name: str) -> bool:  # noqa: N802
        return name not in self.running and "/" not in name

    def beginFileUpload(self) -> str:  # noqa: N802
        self._assert_leading()
        location = f"inbox/stormjar-{len(self.uploads)}.jar"
        self.uploads[location] = b""
        return location

    def uploadChunk(self, location: str, chunk: bytes) -> None:  # noqa: N802
        assert len(chunk) <= MOST_BYTES, "over nimbus.thrift.max_buffer_size"
        self.uploads[location] += chunk

    def finishFileUpload(self, location: str) -> None:  # noqa: N802
        self.finished.add(location)

    def submitTopologyWithOpts(  # noqa: N802
        self,
        name: str,
        uploadedJarLocation: str,  # noqa: N803
        jsonConf: str,  # noqa: N803
        topology: Any,
        options: Any,
    ) -> None:
        self._assert_leading()
        if self.refuse:
            raise storm.InvalidTopologyException(msg=self.refuse)
        active = options.initial_status == storm.TopologyInitialStatus.ACTIVE
        jar = self.uploads.get(uploadedJarLocation, b"")
        self.submitted.append(Submitted(name, jar, jsonConf, topology, active))
        self.running[name] = "ACTIVE" if active else "INACTIVE"

    def killTopologyWithOpts(self, name: str, options: Any) -> None:  # noqa: N802
        if name not in self.running:
            raise storm.NotAliveException(msg=f"{name} is not alive")
        self.killed.append((name, options.wait_secs))
        self.running[name] = "KILLED"

    def _assert_leading(self) -> None:
        if not self.leading:
            raise _internal_error("not a leader")


@contextmanager
def serving(nimbus: FakeNimbus) -> Iterator[FakeNimbus]:
    """Serve until the block ends; the system chooses the port."""
    with socket.create_server((nimbus.host, 0)) as listener:
        nimbus.port = listener.getsockname()[1]
        thread = threading.Thread(target=_accept, args=(listener, nimbus), daemon=True)
        thread.start()
        try:
            yield nimbus
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def _accept(listener: socket.socket, nimbus: FakeNimbus) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if nimbus.hangs_up:
            connection.close()
            continue
        threading.Thread(target=_answer, args=(connection, nimbus), daemon=True).start()


def _answer(connection: socket.socket, nimbus: FakeNimbus) -> None:
    transport = TFramedTransportFactory().get_transport(TSocket(sock=connection))
    protocol = TBinaryProtocolFactory().get_protocol(transport)
    processor = TProcessor(storm.Nimbus, nimbus)
    with suppress(TTransportException, OSError), closing(transport):
        while int.from_bytes(connection.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL)) <= MOST_BYTES:
            processor.process(protocol, protocol)


def _internal_error(text: str) -> TApplicationException:
    return TApplicationException(TApplicationException.INTERNAL_ERROR, f"Internal error: {text}")
