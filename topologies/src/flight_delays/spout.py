"""The source of the stream: flights at a chosen rate, each replayed until it is acknowledged."""

from __future__ import annotations

import logging
import time

from kazoo.client import KazooClient
from streamparse import Spout

from flight_delays.archive import data_dir, share
from flight_delays.committer import Committer
from flight_delays.offsets import OffsetTracker
from flight_delays.progress import TaskProgress
from flight_delays.progress_store import ZooKeeperStore
from flight_delays.settings import Settings
from pacing import Pacer, RateSchedule

MAX_PER_CALL = 20  # tuples per `next` of Storm: between two calls it hands over acknowledgements
IDLE_S = 0.005  # longest sleep of a call that has nothing to emit
MAX_PENDING = 5000  # where topology.max.spout.pending is not set


class FlightSpout(Spout):
    """Emits (number of the flight, CSV line). The id of a tuple is its offset in this task's share of the flights.

    Nothing is emitted before the position of an earlier process of this task is known; from then on progress is
    written in the background, whether or not ZooKeeper is there.
    """

    outputs = ["flight", "line"]
    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    wall_clock = staticmethod(time.time)

    def initialize(self, storm_conf, context):
        """Find the data and begin to ask where an earlier process of this task had come to."""
        tasks = sorted(int(task) for task, name in context["task->component"].items() if name == self.component_name)
        self._index, self._tasks = tasks.index(self.task_id), len(tasks)
        self._settings = Settings.from_storm_conf(storm_conf)
        self._folder = data_dir(self._settings.data_dir)
        self._pacer = Pacer(self._settings.rate_tps / self._tasks)
        self._schedule = RateSchedule(self._settings.rate_schedule) if self._settings.rate_schedule else None
        self._max_pending = int(storm_conf.get("topology.max.spout.pending") or MAX_PENDING)
        self._tracker: OffsetTracker | None = None
        self._problem = ""
        self._offered_at = self.clock()
        self._committer = self.make_committer(storm_conf)

    def make_committer(self, storm_conf):
        """Return a started committer on the cluster's ZooKeeper."""
        port = storm_conf.get("storm.zookeeper.port", 2181)
        hosts = ",".join(f"{host}:{port}" for host in storm_conf["storm.zookeeper.servers"])
        logging.getLogger("kazoo").setLevel(logging.ERROR)  # what matters of it is logged by `_report`
        client = KazooClient(hosts=hosts, connection_retry={"max_tries": -1, "max_delay": 10.0})
        connected = client.start_async()
        topology_id = storm_conf.get("storm.id") or self.topology_name
        store = ZooKeeperStore(client, self._settings.progress_root, topology_id, self._index, self._tasks)
        committer = Committer(store, self._settings.commit_period_s)
        committer.start(connected)
        return committer

    def next_tuple(self):
        """Emit what the rate allows by now, failed tuples first; sleep a little if that is nothing."""
        self._report()
        if self._committer.deposed or not self._position_known():
            self.sleep(IDLE_S)
            return
        if self._schedule is not None:
            self._pacer.change(self._schedule.at(self.wall_clock()) / self._tasks)
        due = min(self._pacer.due(self.clock()), MAX_PER_CALL)
        emitted = 0
        while emitted < due and self._emit_one():
            emitted += 1
        self._pacer.spend(emitted)
        self._offer_progress()
        if not emitted:
            self.sleep(min(self._pacer.wait_s() or IDLE_S, IDLE_S))

    def ack(self, tup_id):
        """Note that a flight went all the way."""
        if self._tracker is not None:
            self._tracker.ack(int(tup_id))

    def fail(self, tup_id):
        """Note that a flight got lost or timed out: it is emitted again."""
        if self._tracker is not None:
            self._tracker.fail(int(tup_id))

    def _emit_one(self):
        replay = self._tracker.replay()
        if replay is not None:
            offset, values = replay
        else:
            if self._tracker.pending >= self._max_pending:
                return False
            following = next(self._flights, None)
            if following is None:
                self._ended = True
                return False
            _, *values = following
            offset = self._tracker.emit(values)
        self.emit(values, tup_id=str(offset))
        return True

    def _position_known(self):
        if self._tracker is None and self._committer.claimed is not None:
            claimed = self._committer.claimed
            self._claimed = claimed
            self._ended = False
            self._tracker = OffsetTracker(claimed.committed, claimed.emitted)
            self._flights = share(
                self._folder,
                self._index,
                self._tasks,
                claimed.committed,
                loop=self._settings.loop,
                limit=self._settings.limit,
            )
            self.logger.info(
                "share %d of %d, process %d of it: from offset %d at %.1f flights/s",
                self._index,
                self._tasks,
                claimed.incarnation,
                claimed.committed,
                self._pacer.rate_tps,
            )
        return self._tracker is not None

    def _offer_progress(self):
        now = self.clock()
        if now - self._offered_at < self._settings.commit_period_s:
            return
        self._offered_at = now
        tracker, before = self._tracker, self._claimed
        self._committer.offer(
            TaskProgress(
                index=self._index,
                tasks=self._tasks,
                incarnation=before.incarnation,
                committed=tracker.committed,
                emitted=tracker.emitted,
                acked=before.acked + tracker.acked,
                failed=before.failed + tracker.failed,
                replayed=before.replayed + tracker.replayed,
                done=self._ended and not tracker.pending,
                updated_at=round(self.wall_clock(), 3),
            )
        )

    def _report(self):
        problem = self._committer.problem
        if problem != self._problem:
            self._problem = problem
            if problem:
                self.logger.warning("progress is not written for now: %s", problem)
            else:
                self.logger.info("progress is written again")
