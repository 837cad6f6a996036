"""The spout, driven call by call with a clock and a ZooKeeper of our own."""

from io import BytesIO

import pytest

from doubles.memory_kazoo import MemoryKazoo
from flight_delays.committer import Committer
from flight_delays.progress import read_progress
from flight_delays.progress_store import ZooKeeperStore
from flight_delays.spout import FlightSpout


class Host:
    """What a spout finds around it: Storm (its messages), time, a ZooKeeper and the committer's thread."""

    def __init__(self, zookeeper: MemoryKazoo, task: int = 1, **conf) -> None:
        self.now_s = 1000.0
        self.emitted: list[tuple[str, list]] = []
        self.zookeeper = zookeeper
        host = self

        class HostedSpout(FlightSpout):
            def clock(self):
                return host.now_s

            def sleep(self, seconds):
                assert 0 < seconds <= 0.01, "a spout must not block"
                host.now_s += seconds

            def wall_clock(self):
                return 1.7e9 + host.now_s

            def make_committer(self, storm_conf):
                store = ZooKeeperStore(zookeeper, "/flights", storm_conf["storm.id"], self._index, self._tasks)
                return Committer(store, period_s=1.0)

            def send_message(self, message):
                if message["command"] == "emit":
                    host.emitted.append((message["id"], message["tuple"]))

        self.spout = HostedSpout(input_stream=BytesIO(), output_stream=BytesIO())
        self.spout.component_name = "source"
        self.spout.task_id = task
        self.spout.logger = self
        self.log: list[str] = []
        storm_conf = {"storm.id": "flights-1", "flights.rate.tps": 100, **conf}
        context = {"task->component": {"1": "source", "2": "source", "3": "parse"}}
        self.spout.initialize(storm_conf, context)

    def info(self, message, *args):
        self.log.append(message % args)

    warning = info

    def run(self, seconds: float) -> None:
        """Call `next_tuple` for so long; the committer gets its turn after each call, the call takes 1 ms."""
        end = self.now_s + seconds
        while self.now_s < end:
            self.spout.next_tuple()
            self.spout._committer.step()
            self.now_s += 0.001

    def ack_all(self) -> None:
        for offset, _ in self.emitted:
            self.spout.ack(offset)

    @property
    def flights(self) -> list[int]:
        """Numbers of the flights in the order of their emission."""
        return [values[0] for _, values in self.emitted]

    @property
    def progress(self):
        return read_progress(self.zookeeper, "flights-1")[0]


@pytest.fixture
def zookeeper():
    return MemoryKazoo()


def test_emits_its_share_in_order_at_its_share_of_the_rate(zookeeper):
    host = Host(zookeeper, task=2)
    host.run(seconds=10)
    assert len(host.emitted) == pytest.approx(10 * 100 / 2, abs=2)
    assert host.flights[:3] == [1, 3, 5]
    assert [offset for offset, _ in host.emitted[:3]] == ["0", "1", "2"]
    assert host.emitted[0][1][1].startswith("2013,1,1,533,529,4,850,830,20,UA,1714,")


def test_follows_its_schedule_by_the_wall_clock(zookeeper):
    host = Host(zookeeper, **{"flights.rate.schedule": "100x50,20x50"})  # 1.7e9 s + 1000 s is where it begins
    host.run(50)
    before = len(host.emitted)
    host.run(50)
    assert before == pytest.approx(100 / 2 * 50, abs=60)  # one of two tasks; some time passes until it begins
    assert len(host.emitted) - before == pytest.approx(20 / 2 * 50, abs=60)


def test_nothing_is_emitted_before_the_position_is_known(zookeeper):
    zookeeper.gone = True
    host = Host(zookeeper)
    host.run(seconds=5)
    assert host.emitted == []
    assert any("progress is not written for now: ConnectionLoss" in line for line in host.log)
    zookeeper.gone = False
    host.run(seconds=1)
    assert host.flights[0] == 0


def test_goes_on_at_its_rate_while_zookeeper_is_gone_and_writes_when_it_is_back(zookeeper):
    host = Host(zookeeper)
    host.run(seconds=2)
    zookeeper.gone = True
    host.run(seconds=30)
    host.ack_all()
    assert len(host.emitted) == pytest.approx(32 * 50, abs=3)
    zookeeper.gone = False
    host.run(seconds=2)
    assert host.progress.committed >= 32 * 50 - 3
    problems = [line for line in host.log if "progress is" in line]
    assert [line.split(":")[0] for line in problems] == ["progress is not written for now", "progress is written again"]


def test_no_more_is_pending_than_storm_allows(zookeeper):
    host = Host(zookeeper, **{"topology.max.spout.pending": 30})
    host.run(seconds=10)
    assert len(host.emitted) == 30
    host.spout.ack("0")
    host.run(seconds=1)
    assert len(host.emitted) == 31


def test_a_failed_flight_is_emitted_again_as_it_was(zookeeper):
    host = Host(zookeeper)
    host.run(seconds=1)
    sent = dict(host.emitted)
    first_run = len(host.emitted)
    host.spout.fail("7")
    host.run(seconds=1)
    assert host.emitted[first_run] == ("7", sent["7"])
    assert host.flights.count(sent["7"][0]) == 2


def test_replays_are_part_of_the_rate(zookeeper):
    host = Host(zookeeper)
    host.run(seconds=4)
    for offset, _ in host.emitted:
        host.spout.fail(offset)
    host.run(seconds=2)
    assert len(host.emitted) == pytest.approx(6 * 50, abs=2)


def test_a_restarted_spout_goes_on_from_the_lowest_flight_that_is_not_acknowledged(zookeeper):
    before = Host(zookeeper)
    before.run(seconds=4)
    for offset, _ in before.emitted:
        if offset != "20":
            before.spout.ack(offset)
    before.run(seconds=2)
    assert before.progress.committed == 20
    after = Host(zookeeper)
    after.run(seconds=1)
    assert after.flights[0] == before.flights[20] == 40
    assert after.progress.incarnation == 2
    after.run(seconds=4)
    assert after.progress.replayed > 0
    assert after.progress.acked == before.progress.acked


def test_a_process_that_was_replaced_falls_silent(zookeeper):
    old = Host(zookeeper)
    old.run(seconds=3)
    Host(zookeeper).run(seconds=1)
    old.run(seconds=3)
    emitted = len(old.emitted)
    old.run(seconds=5)
    assert len(old.emitted) == emitted


def test_the_stream_is_done_when_the_last_flight_is_acknowledged(zookeeper):
    host = Host(zookeeper, **{"flights.limit": 61})
    host.run(seconds=3)
    assert host.flights == list(range(0, 61, 2))
    assert not host.progress.done
    host.ack_all()
    host.run(seconds=2)
    assert host.progress.done
    assert (host.progress.committed, host.progress.emitted, host.progress.acked) == (31, 31, 31)


def test_every_flight_is_acknowledged_in_the_end_though_many_get_lost_and_the_spout_restarts(zookeeper):
    """Each third emission fails; every two seconds the process is replaced by a new one."""
    acknowledged: set[int] = set()
    emissions = 0
    for _ in range(200):
        host = Host(zookeeper, **{"flights.limit": 400})
        handled = 0
        for _ in range(20):
            host.run(seconds=0.1)
            for offset, values in host.emitted[handled:]:
                emissions += 1
                if emissions % 3:
                    host.spout.ack(offset)
                    acknowledged.add(values[0])
                else:
                    host.spout.fail(offset)
            handled = len(host.emitted)
        assert set(range(0, 2 * host.progress.committed, 2)) <= acknowledged
        if host.progress.done:
            break
    assert host.progress.done
    assert acknowledged == set(range(0, 400, 2))
