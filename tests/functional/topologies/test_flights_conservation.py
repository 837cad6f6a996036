"""The whole topology in one process: every flight ends in exactly one place, and none is lost for good."""

import zipfile
from collections import Counter
from itertools import islice

import pytest

from doubles.memory_kazoo import MemoryKazoo
from flight_delays.archive import data_dir, rows
from flight_delays.committer import Committer
from flight_delays.delay_bolts import CarrierStatistics, RouteStatistics
from flight_delays.progress import Progress, read_progress
from flight_delays.progress_store import ZooKeeperStore
from flight_delays.records import CANCELLED, DIVERTED, parse, why_filtered
from flight_delays.spout import FlightSpout
from inprocess_storm import InProcessStorm, load_topology

FLIGHTS = 2500


class WritesAtOnce(Committer):
    """A committer that does not need its thread."""

    def offer(self, progress):
        super().offer(progress)
        self.step()


class Run:
    """The topology `flights` with a clock and a ZooKeeper of our own."""

    def __init__(self, conf=None, replace=None, **kwargs) -> None:
        self.now_s = 0.0
        self.zookeeper = zookeeper = MemoryKazoo()
        self._reached: dict[str, set[int]] = {}
        run = self

        class Spout(FlightSpout):
            def clock(self):
                return run.now_s

            def sleep(self, seconds):
                pass

            def make_committer(self, storm_conf):
                store = ZooKeeperStore(zookeeper, "/flights", storm_conf["storm.id"], self._index, self._tasks)
                committer = WritesAtOnce(store, period_s=1.0)
                committer.step()
                return committer

        class Recording:
            """Remembers which flights came."""

            def clock(self):
                return run.now_s

            def process(self, tup):
                run._reached.setdefault(self.component_name, set()).add(tup.values[0])
                super().process(tup)

        class Routes(Recording, RouteStatistics):
            pass

        class Carriers(Recording, CarrierStatistics):
            pass

        self.spout_cls = Spout
        self.storm = InProcessStorm(
            load_topology("flights"),
            conf={"flights.rate.tps": 400, "flights.limit": FLIGHTS, "flights.loop": False} | (conf or {}),
            replace={"source": Spout, "by_route": Routes, "by_carrier": Carriers} | (replace or {}),
            **kwargs,
        )

    def second(self) -> None:
        """Let a second pass."""
        for _ in range(20):
            self.now_s += 0.05
            self.storm.next_tuples("source")

    def until_done(self, time_out_every_s: int = 1000, seconds: int = 200) -> None:
        """Run until all is acknowledged."""
        for second in range(1, seconds):
            self.second()
            if second % time_out_every_s == 0:
                self.storm.time_out()
            if self.progress.done:
                return
        raise AssertionError(f"not done after {seconds} s: {self.progress}")

    def reached(self, component: str) -> set[int]:
        """Return the flights that came to a component that keeps windows."""
        return self._reached[component]

    @property
    def progress(self) -> Progress:
        return Progress.total(read_progress(self.zookeeper, "test-1"))

    @property
    def ledger(self):
        return self.storm.of("sink")[0].ledger

    def flights_in_windows(self, component: str, kind: str) -> int:
        """Flights in windows of a kind that have closed or are open."""
        return self.ledger.window_flights[kind] + sum(bolt.windows.open_flights for bolt in self.storm.of(component))


@pytest.fixture(scope="module")
def expected() -> Counter:
    """Where the flights of the test end, counted from the file: by reason, None = arrived."""
    lines = (parse(i, line.decode()) for i, line in enumerate(islice(rows(data_dir()), FLIGHTS)))
    return Counter(why_filtered(flight) for flight in lines)


@pytest.fixture(scope="module")
def undisturbed() -> Run:
    run = Run()
    run.until_done()
    return run


def test_every_flight_ends_in_exactly_one_place(undisturbed, expected):
    arrived = expected[None]
    assert undisturbed.ledger.rejected == {reason: n for reason, n in expected.items() if reason}
    assert undisturbed.flights_in_windows("by_route", "route") == arrived
    assert undisturbed.flights_in_windows("by_carrier", "carrier") == arrived
    assert arrived + undisturbed.ledger.rejected.total() == FLIGHTS


def test_every_flight_is_acknowledged_once(undisturbed):
    assert undisturbed.progress == Progress(
        tasks=2, committed=FLIGHTS, emitted=FLIGHTS, acked=FLIGHTS, failed=0, replayed=0, done=True
    )


def test_the_stream_has_heavy_and_light_edges(undisturbed, expected):
    delivered = undisturbed.storm.delivered
    arrived = expected[None]
    assert delivered["source", "default", "parse"] == FLIGHTS
    assert delivered["parse", "default", "filter"] == FLIGHTS
    assert delivered["filter", "default", "enrich"] == arrived
    assert delivered["enrich", "default", "by_route"] == arrived
    assert delivered["enrich", "default", "by_carrier"] == arrived
    assert 0 < delivered["by_route", "windows", "alerts"] < arrived / 40
    assert 0 < delivered["alerts", "alerts", "sink"] < delivered["by_carrier", "windows", "sink"]


def test_a_key_is_always_at_the_same_task(undisturbed):
    """Each carrier has open windows in one task at most."""
    keys = [key for bolt in undisturbed.storm.of("by_carrier") for key in bolt.windows._open]
    assert keys
    assert len(keys) == len(set(keys))


def test_ticks_close_what_is_old():
    run = Run()
    run.until_done()
    open_before = sum(bolt.windows.open_flights for bolt in run.storm.of("by_route"))
    assert open_before > 0
    run.storm.tick("by_route")
    assert sum(bolt.windows.open_flights for bolt in run.storm.of("by_route")) == open_before
    run.now_s += 61
    closed_before = run.ledger.window_flights["route"]
    run.storm.tick("by_route")
    assert sum(bolt.windows.open_flights for bolt in run.storm.of("by_route")) == 0
    assert run.ledger.window_flights["route"] == closed_before + open_before


def test_no_flight_is_lost_for_good_when_tuples_get_lost_on_every_edge(expected):
    """Each 50th tuple between any two components vanishes; Storm notices at the time-out, the spout replays."""
    counted = Counter()

    def loses(component, values):
        counted[component] += 1
        return counted[component] % 50 == 0

    run = Run(loses=loses)
    run.until_done(time_out_every_s=5)
    assert run.progress.committed == FLIGHTS
    assert run.progress.replayed == run.progress.failed > FLIGHTS / 50
    assert len(run.reached("by_route")) == len(run.reached("by_carrier")) == expected[None]
    assert run.ledger.rejected.keys() == {CANCELLED, DIVERTED}
    assert all(run.ledger.rejected[reason] >= expected[reason] for reason in (CANCELLED, DIVERTED))


def test_no_flight_is_lost_for_good_when_spouts_restart(expected):
    """The worker of a spout restarts every second of the run: what was not committed is emitted again."""
    run = Run()
    tasks = run.storm.tasks_of["source"]
    for second in range(60):
        run.second()
        if run.progress.done:
            break
        run.storm.start(tasks[second % len(tasks)], run.spout_cls)
    assert run.progress.done
    assert run.progress.committed == FLIGHTS
    assert run.progress.acked >= FLIGHTS
    assert len(run.reached("by_route")) == len(run.reached("by_carrier")) == expected[None]


def test_a_line_that_is_no_flight_is_rejected_and_acknowledged(tmp_path):
    good = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as file:
        file.writestr("flights.csv", "\n".join(["header", good, "not a flight", "", good]) + "\n")
    for name in ("airlines.csv", "airports.csv", "weather.csv"):
        (tmp_path / name).write_bytes((data_dir() / name).read_bytes())
    run = Run(conf={"flights.data.dir": str(tmp_path)})
    run.until_done()
    assert run.ledger.rejected == {"malformed": 2}
    assert run.flights_in_windows("by_route", "route") == 2
    assert (run.progress.committed, run.progress.failed) == (4, 0)
