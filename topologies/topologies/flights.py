"""Delay statistics of flights, by route and by carrier, with alerts."""

from streamparse import Grouping, Topology

from flight_delays.alerts import DelayAlerts
from flight_delays.bolts import EnrichFlight, FilterFlight, ParseFlight
from flight_delays.delay_bolts import CarrierStatistics, RouteStatistics
from flight_delays.sink import DelaySink
from flight_delays.spout import FlightSpout

TICK = {"topology.tick.tuple.freq.secs": 5}


class Flights(Topology):
    """source -> parse -> filter -> enrich -> (by_route, by_carrier) -> alerts -> sink."""

    config = {
        "topology.workers": 8,
        "topology.acker.executors": 3,
        "topology.max.spout.pending": 2000,
        "topology.message.timeout.secs": 15,
        # An executor without tuples sleeps 1 ms at a time; Storm's default of 1000 would let it spin for a while first.
        "topology.bolt.wait.progressive.level2.count": 0,
        "flights.rate.tps": 300,
        "flights.loop": True,
    }

    source = FlightSpout.spec(par={"local": 2, "standby": 2, "cluster": 4})
    parse = ParseFlight.spec(inputs=[source], par={"local": 4, "standby": 4, "cluster": 8})
    filter = FilterFlight.spec(inputs=[parse], par={"local": 3, "standby": 3, "cluster": 6})
    enrich = EnrichFlight.spec(inputs=[filter], par={"local": 4, "standby": 4, "cluster": 12})
    by_route = RouteStatistics.spec(
        inputs={enrich: Grouping.fields("route")}, par={"local": 4, "standby": 4, "cluster": 12}, config=TICK
    )
    by_carrier = CarrierStatistics.spec(
        inputs={enrich: Grouping.fields("carrier")}, par={"local": 3, "standby": 3, "cluster": 6}, config=TICK
    )
    alerts = DelayAlerts.spec(
        inputs={
            by_route["windows"]: Grouping.fields("kind", "key"),
            by_carrier["windows"]: Grouping.fields("kind", "key"),
        },
        par=2,
    )
    sink = DelaySink.spec(
        inputs={
            parse["rejected"]: Grouping.SHUFFLE,
            filter["rejected"]: Grouping.SHUFFLE,
            by_route["windows"]: Grouping.GLOBAL,
            by_carrier["windows"]: Grouping.GLOBAL,
            alerts["alerts"]: Grouping.GLOBAL,
        },
        config=TICK,
    )
