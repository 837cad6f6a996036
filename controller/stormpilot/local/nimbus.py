"""The few questions that a local cluster asks its Nimbus, over Thrift."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stormpilot.errors import RefusedError, UnreachableError


@contextmanager
def nimbus(host: str, port: int, timeout_s: float = 10.0) -> Iterator[Any]:
    """A Thrift client of Nimbus; a Nimbus that does not answer becomes an UnreachableError."""
    from streamparse.thrift import Nimbus
    from thriftpy2.protocol import TBinaryProtocolFactory
    from thriftpy2.rpc import make_client
    from thriftpy2.thrift import TException
    from thriftpy2.transport import TFramedTransportFactory

    client = None
    try:
        client = make_client(
            Nimbus,
            host=host,
            port=port,
            proto_factory=TBinaryProtocolFactory(),  # type: ignore[no-untyped-call]
            trans_factory=TFramedTransportFactory(),
            timeout=int(timeout_s * 1000),
        )
        yield client
    except (OSError, TException) as e:
        if type(e).__module__ == "storm_thrift":  # Nimbus itself said no
            raise RefusedError(f"Nimbus at {host}:{port}: {getattr(e, 'msg', e)}") from None
        raise UnreachableError(f"Nimbus at {host}:{port} does not answer: {e}") from None
    finally:
        if client is not None:
            client.close()


def kill_topology(client: Any, name: str) -> None:
    """Kill a topology at once."""
    from streamparse.thrift import KillOptions

    client.killTopologyWithOpts(name=name, options=KillOptions(wait_secs=0))
