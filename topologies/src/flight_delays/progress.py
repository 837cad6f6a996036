"""Progress of the spout, as kept in ZooKeeper: format, and a reader (also `python -m flight_delays.progress`).

Each task of the spout has one znode `<root>/<topology id>/<task index>` with a JSON object, see `TaskProgress`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

SCHEMA = 1
DEFAULT_ROOT = "/flights"


@dataclass(frozen=True)
class TaskProgress:
    """Progress of one task of the spout. Counters go on over restarts of its worker.

    Attributes
    ----------
    index, tasks
        Which of how many tasks of the spout.
    incarnation
        Processes that have run this task so far; one with a lower number may not write any more.
    committed
        **Every offset below has been acknowledged.** A restarted task goes on from here.
    emitted
        Offsets emitted at least once; those from `committed` to here are in flight, or will be replayed.
    acked, failed, replayed
        Acknowledgements, failures told by Storm, and second or later emissions of an offset.
    done
        The stream has an end (`flights.limit`, or no `flights.loop`) and all of it has been acknowledged.
    updated_at
        Seconds since 1970, by the clock of the task's host.
    """

    index: int
    tasks: int
    incarnation: int = 0
    committed: int = 0
    emitted: int = 0
    acked: int = 0
    failed: int = 0
    replayed: int = 0
    done: bool = False
    updated_at: float = 0.0

    def to_json(self) -> bytes:
        """Return the content of the znode."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}).encode()

    @classmethod
    def from_json(cls, data: bytes, path: str) -> TaskProgress:
        """Read the content of the znode at `path`; unknown fields are ignored.

        Raises
        ------
        ValueError
            Not this format, or a newer schema.
        """
        try:
            message = json.loads(data)
            schema = message.pop("schema")
            if schema == SCHEMA:
                return cls(**{f.name: message[f.name] for f in fields(cls) if f.name in message})
        except (ValueError, TypeError, AttributeError, KeyError) as e:
            raise ValueError(f"{path}: expected the progress of a spout task as JSON: {e!r}") from e
        raise ValueError(f"{path}: expected schema {SCHEMA}, got {schema!r}")


@dataclass(frozen=True)
class Progress:
    """Progress of all tasks together: sums, and done when every task is."""

    tasks: int
    committed: int
    emitted: int
    acked: int
    failed: int
    replayed: int
    done: bool

    @classmethod
    def total(cls, parts: Iterable[TaskProgress]) -> Progress:
        """Add up the tasks; `done` asks for all of them to be there."""
        parts = list(parts)
        sums = {
            name: sum(getattr(part, name) for part in parts)
            for name in ("committed", "emitted", "acked", "failed", "replayed")
        }
        complete = bool(parts) and len(parts) == parts[0].tasks
        return cls(tasks=len(parts), done=complete and all(part.done for part in parts), **sums)


def task_path(root: str, topology_id: str, index: int) -> str:
    """Return the znode of a task."""
    return f"{root}/{topology_id}/{index}"


def read_progress(client: KazooClient, topology_id: str, root: str = DEFAULT_ROOT) -> list[TaskProgress]:
    """Read the progress of every task of a topology's spout, in order of index; none yet = an empty list.

    Parameters
    ----------
    client : KazooClient
        Started; its own errors (connection loss) pass through.
    topology_id : str
        Storm's id, such as ``flights-1-1732158000``, not the name.
    """
    try:
        names = client.get_children(f"{root}/{topology_id}")
    except NoNodeError:
        return []
    progress = []
    for index in sorted(int(name) for name in names):
        path = task_path(root, topology_id, index)
        progress.append(TaskProgress.from_json(client.get(path)[0], path))
    return progress


def main() -> int:
    """Print the progress of a topology as JSON; exit code 1 if it has none, 3 if ZooKeeper does not answer."""
    parser = argparse.ArgumentParser(prog="python -m flight_delays.progress", description=main.__doc__)
    parser.add_argument("topology_id", help="Storm's id of the topology, such as flights-1-1732158000")
    parser.add_argument("--zookeeper", default="127.0.0.1:2181", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--root", default=DEFAULT_ROOT, help="flights.progress.root of the topology")
    args = parser.parse_args()
    client = KazooClient(hosts=args.zookeeper, read_only=True)
    try:
        client.start(timeout=10)
    except KazooTimeoutError:
        print(f"ZooKeeper at {args.zookeeper} does not answer", file=sys.stderr)
        return 3
    try:
        parts = read_progress(client, args.topology_id, args.root)
    finally:
        client.stop()
        client.close()
    if not parts:
        print(f"{args.topology_id} has no progress below {args.root} in {args.zookeeper}", file=sys.stderr)
        return 1
    print(json.dumps({"total": asdict(Progress.total(parts)), "tasks": [asdict(part) for part in parts]}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
