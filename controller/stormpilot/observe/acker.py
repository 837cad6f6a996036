"""The traffic of Storm's ackers, derived: no Python runs in an acker, so nothing of ours can count there.

Every tuple that a bolt acks or fails is one tuple to an acker (stream `__ack_ack`), every spout tuple with an id one
(`__ack_init`), and every tree that completes one from the acker back to its spout (`__ack_ack`). The acker is chosen by
hashing the tuple tree's id, a random 64-bit number: so each sender's tuples are spread evenly over the acker *tasks*,
whatever the placement. What a bolt acks without an anchor is counted too, although Storm sends nothing for it; what is
anchored to several trees (a batch) counts once, although Storm sends a tuple for each; and the failures that an acker
tells a spout are left out: nearly all are time-outs, of which Storm sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stormpilot.model.values import Edge, Executor

ACKER = "__acker"
ACK_INIT = "__ack_init"
ACK_ACK = "__ack_ack"


def acker_edges(
    topology_id: str,
    executors: Sequence[Executor],
    sent: Mapping[int, Mapping[str, float]],
    completed: Mapping[int, float],
) -> list[Edge]:
    """Edges to and from the ackers.

    Parameters
    ----------
    sent
        Per executor (start task) the tuples/s that it sends to all ackers together, by stream.
    completed
        Per spout executor (start task) the tuples/s that come back to it from all ackers together.
    """
    ackers = [e for e in executors if e.component == ACKER]
    tasks = sum(e.end - e.start + 1 for e in ackers)
    edges = []
    for acker in ackers:
        share = (acker.end - acker.start + 1) / tasks
        for start, by_stream in sent.items():
            edges += [
                Edge(topology=topology_id, from_=start, to=acker.start, rate=tps * share, stream=stream)
                for stream, tps in by_stream.items()
                if tps > 0
            ]
        edges += [
            Edge(topology=topology_id, from_=acker.start, to=start, rate=tps * share, stream=ACK_ACK)
            for start, tps in completed.items()
            if tps > 0
        ]
    return edges
