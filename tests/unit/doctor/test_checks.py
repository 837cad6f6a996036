"""What the doctor says of an installation, by the evidence alone: healthy, and with one thing broken each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import stormpilot
from doubles import snapshots
from doubles.installations import CONF, FLIGHTS, NOW_MS, PLAN, SLOTS, bad, conf, evidence, seen, state
from stormpilot.doctor import Level, examine
from stormpilot.doctor.ensemble import Server
from stormpilot.doctor.evidence import Access, NimbusSaid, Written
from stormpilot.doctor.surroundings import SCHEDULER
from stormpilot.messages.controller_state import TopologyView
from stormpilot.messages.core import ShimPart, StatusMessage
from stormpilot.messages.settings import DrainSetting, ExcludeSetting, PinSetting
from stormpilot.observe.reader import PublishedPlan
from stormpilot.observe.settings import Settings


def refreshing(waits_s: float | None, polls_s: int | None) -> dict[str, Any]:
    """A controller whose rolling moves wait so long, and Storm's workers that look so often where tasks are."""
    said = {} if polls_s is None else {"task.refresh.poll.secs": polls_s}
    return {"seen": seen(controller=state(task_refresh_s=waits_s)), **conf(**said)}


def acl(*entry: str) -> dict[str, Any]:
    """A root whose access list has this entry alone: scheme, who, rights."""
    return {"access": [Access(path="/stormpilot", entries=[entry])]}  # type: ignore[list-item]


def wrote(who: str, ahead_ms: int, arrived_ms: int = 0) -> dict[str, Any]:
    """A message whose clock is so far ahead of ZooKeeper's, which is so far ahead of ours."""
    return {"written": [Written(who=who, wrote_at_ms=NOW_MS + ahead_ms, arrived_at_ms=NOW_MS + arrived_ms)]}


def no_nimbus(port: int, error: str, **more: Any) -> dict[str, Any]:
    """A Nimbus that does not answer."""
    return {"nimbus": NimbusSaid(address=f"n:{port}", error=error), **more}


def problem(znode: str, text: str) -> dict[str, Any]:
    """A znode that cannot be read."""
    return {"problems": {f"/stormpilot/v1/{znode}": text}}


def storm_has(supervisors: str, topologies: list[str]) -> dict[str, Any]:
    """What Storm itself wrote to ZooKeeper, where no Nimbus answers; a letter is a supervisor."""
    return {"nimbus": None, "storm_supervisors": [*supervisors], "storm_topologies": topologies}


def test_a_healthy_installation_has_nothing_to_mend() -> None:
    found = examine(evidence())
    assert [f for f in found if f.level is not Level.ok] == []
    checks = {f.check for f in found}
    assert {"zookeeper", "access", "clocks", "nimbus", "retries", "plug-in", "controller"} <= checks
    assert {"znodes", "placement", "reports", "thresholds"} <= checks


SERVERS = [Server("a:1", "3.9.5", "leader"), Server("b:1", "3.9.5", "f"), Server("c:1", error="down")]
SECURED = conf(**{"storm.zookeeper.auth.scheme": "digest"})
TLS = {"storm.zookeeper.ssl.enable": True, "stormpilot.zookeeper.ssl.ca": "/etc/ca.pem"}
JKS = {"storm.zookeeper.ssl.enable": True, "storm.zookeeper.ssl.truststore.path": "/etc/t.jks"}
BLACK = msgspec.structs.replace(
    snapshots.cluster("a", "b"), supervisors=[snapshots.supervisor("a", blacklisted=True), snapshots.supervisor("b")]
)
NEWER = msgspec.structs.replace(snapshots.cluster("a", "b"), shim=ShimPart(version="9.9", storm_version="2.6.0"))
LOST = snapshots.topology({t: s for t, s in SLOTS.items() if t != 6})
STUCK = state(written_at_ms=NOW_MS - 600_000)
LED_LONG = seen(contenders=("n2:9",), leading_since_ms=NOW_MS - 600_000)
UNANSWERED = seen(statuses={}, plans={FLIGHTS.id: PublishedPlan(PLAN, 0, NOW_MS - 90_000)})
MISSING = state(
    topologies=[TopologyView(id=FLIGHTS.id, name="flights", mode="act", action="skip", reason="X", missing=2)]
)
OLD = msgspec.structs.replace(FLIGHTS, launched_at_ms=NOW_MS - 600_000)
REJECTED = StatusMessage(
    topology_id=FLIGHTS.id, plan_id="p-1", state="rejected", code="NEWER", text="no", since_ms=0, written_at_ms=NOW_MS
)
UNSIGNED = msgspec.structs.replace(REJECTED, code="SIGNATURE")
ACL = "stormpilot.zookeeper.controller.acl"
KEY = {"stormpilot.plan.key.file": "/etc/stormpilot-plan.key"}


def test_settings_of_machines_that_are_gone_are_told_with_what_removes_them() -> None:
    """Half of the machines were replaced: drains and pins of the old ones stayed for ever."""
    settings = Settings(
        drains={h: DrainSetting(host=h) for h in ("host-a", "old-1")},
        pins=tuple(PinSetting(topology="flights", component="parse", supervisor=s) for s in ("a", "old-id")),
        exclusions=(ExcludeSetting(host="host-a"), ExcludeSetting(host="old-1", topology="flights")),
    )
    found = [f for f in examine(evidence(seen=seen(settings=settings))) if f.check == "gone"]
    assert {f.level for f in found} == {Level.warn}
    assert [f.fix.partition(": ")[2] for f in found] == [
        "stormpilot undrain old-1",
        "stormpilot unpin flights parse",
        "stormpilot include old-1 flights",
    ]
    assert found[1].text == "a pin of flights/parse to old-id, which is gone: no effect"
    assert {f.fix.partition(": ")[0] for f in found} == {"where it does not come back"}, "it may be down for repair"


@pytest.mark.parametrize("supervisor", ["a", "old-id"])
def test_a_pin_of_a_component_that_was_never_there_is_not_said_to_name_what_is_gone(supervisor: str) -> None:
    pins = (PinSetting(topology="flights", component="prase", task=3, supervisor=supervisor),)
    (told,) = (f for f in examine(evidence(seen=seen(settings=Settings(pins=pins)))) if f.check == "gone")
    assert told.text == f"a pin of flights/prase/3 to {supervisor}, but flights has no such executor: no effect"
    assert told.fix == "where it is not to come: stormpilot unpin flights prase/3"


@pytest.mark.parametrize(
    ("broken", "check", "level", "says", "mends"),
    [
        ({"servers": [Server("zk:2181", error="refused")]}, "zookeeper", "fail", "refused", "start it"),
        ({"servers": [Server("zk:2181", "3.4.6", "leader")]}, "zookeeper", "warn", "3.4.6", "compatibility"),
        ({"servers": SERVERS}, "zookeeper", "warn", "c:1", "start it"),
        ({"access": [Access(path="/stormpilot")]}, "access", "fail", "not there", "install"),
        (acl("digest", "storm:x", "rwcda"), "access", "fail", "digest:storm", "auth_file"),
        ({"ids": [("digest", "storm:x")]}, "access", "fail", "anyone who reaches", "setAcl /stormpilot auth::cdrwa"),
        (SECURED, "access", "fail", "logs in", "auth_file"),
        ({"exposed": {"zookeeper.auth_file": "/x"}}, "files", "warn", "/x (zookeeper.auth_file) can", "chmod o-r /x"),
        ({"exposed": {"api.key_file": "/a (b)/x"}}, "files", "warn", "(api.key_file) can", "chmod o-r '/a (b)/x';"),
        (acl("sasl", "storm", "rwcda"), "access", "fail", "sasl:storm", "jaas_file"),
        (acl("sasl", "storm/n@EXAMPLE.ORG", "rwcda"), "access", "fail", "may not change it", "has no Kerberos"),
        (conf(**TLS), "login", "warn", "by TLS, this command in plain text", "zookeeper.ca_file"),
        (conf(**JKS) | {"tls": True}, "login", "warn", "cannot read /etc/t.jks", "stormpilot.zookeeper.ssl.ca"),
        (wrote("the Nimbus host", -4000), "clocks", "warn", "4.0 s behind", "NTP"),
        (wrote("the Nimbus host", 60_000), "clocks", "fail", "ahead of", "NTP"),
        (wrote("x", 9_000, 9_000), "clocks", "warn", "this machine", "NTP"),
        (conf(**{"storm.scheduler": None}), "nimbus", "fail", "Storm's default", "io.stormpilot.PilotScheduler"),
        (no_nimbus(6627, "refused", storm_nimbuses=[]), "nimbus", "fail", "no Nimbus runs", "extlib-daemon"),
        (no_nimbus(7000, "n: refused", storm_nimbuses=["n:7000"]), "nimbus", "fail", "n: refused", "--nimbus"),
        (no_nimbus(7000, "n: refused", nimbus_given=True), "nimbus", "fail", "n: refused", "--nimbus"),
        (
            no_nimbus(6627, "n: refused", nimbus_given=True, nimbus_elsewhere=True),
            *("nimbus", "fail", "n: refused", "Storm's root in ZooKeeper is unknown"),
        ),
        (conf(**{"stormpilot.zookeeper.root": "/x"}), "nimbus", "fail", "/x", "--root /x"),
        (conf(**{"storm.zookeeper.retry.times": 5}), "retries", "warn", "is 5, less than 30", "retry.times: 60"),
        (
            refreshing(3.0, 10),
            *("refresh", "warn", "task_refresh_s is 3, task.refresh.poll.secs on Nimbus 10", "task_refresh_s: 10"),
        ),
        ({"seen": seen(cluster=None)}, "plug-in", "fail", "written nothing", "extlib-daemon"),
        (storm_has("abc", [FLIGHTS.id]), "plug-in", "fail", "supervisors c missing", "storm.scheduler"),
        (storm_has("ab", []), "plug-in", "fail", "not there any more", "storm.scheduler"),
        ({"seen": seen(cluster=NEWER)}, "versions", "warn", "9.9", "the same version"),
        ({"seen": seen(cluster=BLACK)}, "supervisors", "warn", "host-a", "log"),
        ({"seen": seen(contenders=(), controller=None)}, "controller", "fail", "no controller has run", "start it"),
        ({"seen": seen(contenders=())}, "controller", "fail", "no controller runs", "start it"),
        ({"seen": seen(controller=STUCK)}, "controller", "fail", "10 min ago", "restart it"),
        ({"seen": seen(contenders=("n2:9",))}, "controller", "warn", "not ended its first cycle", "wait for it"),
        ({"seen": LED_LONG}, "controller", "fail", "n2:9 has led for 10 min", "log"),
        ({"seen": seen(controller=state(version="0.0.9"))}, "versions", "warn", "0.0.9", "same version"),
        ({"seen": seen(controller=state(problems=["disk full"]))}, "controller", "warn", "disk full", "status"),
        (problem("plans/x", "schema 2 is newer than 1"), "znodes", "fail", "newer than", "upgrade the older"),
        (problem("thresholds/x", "bad"), "znodes", "fail", "bad", "trafficlog mine --publish"),
        (problem("settings/pin/x", "bad"), "znodes", "fail", "bad", "set it again"),
        ({"seen": seen(topologies={FLIGHTS.id: LOST})}, "placement", "fail", "1 of 6 executors", "slots"),
        ({"seen": UNANSWERED}, "placement", "fail", "no answer", "not loaded"),
        ({"seen": seen(statuses={FLIGHTS.id: REJECTED})}, "placement", "warn", "NEWER", "explain flights"),
        ({"seen": seen(statuses={FLIGHTS.id: UNSIGNED})}, "placement", "fail", "SIGNATURE", "the same key"),
        ({**conf(**KEY), "signs": False}, "plan key", "fail", "the controller signs none", "publish.plan_key_file"),
        ({"signs": True}, "plan key", "warn", "without a signature too", "stormpilot.plan.key.file"),
        ({"seen": seen(paused=frozenset({"_all"}))}, "pause", "warn", "everything is paused", "stormpilot resume ends"),
        ({"seen": seen(paused=frozenset({"%5Fall"}))}, "pause", "warn", "_all is paused", "stormpilot resume _all"),
        ({"reports": {}}, "reports", "warn", "submitted 60 s ago", "wait until"),
        ({"seen": seen(topologies={FLIGHTS.id: OLD}), "reports": {}}, "reports", "warn", "without any", "the hook"),
        ({"reports": {FLIGHTS.id: 300.0}}, "reports", "fail", "5 min old", "collector"),
        ({"seen": seen(controller=MISSING)}, "reports", "warn", "2 tasks", "logs"),
        (
            {"thresholds": {FLIGHTS.id: NOW_MS - 30 * 86_400_000}},
            *("thresholds", "warn", "mined from data that ends 30 days ago", "stormpilot trafficlog mine"),
        ),
    ],
)
def test_one_broken_thing_is_named_with_how_to_mend_it(
    broken: dict[str, Any], check: str, level: str, says: str, mends: str
) -> None:
    found = [f for f in bad(evidence(**broken)) if f.check == check]
    assert found, f"nothing is said of {check}"
    assert any(f.level == level and says in f.text and mends in f.fix for f in found), found


def test_a_rolling_move_that_waits_as_long_as_workers_need_is_right() -> None:
    """Without Nimbus, a controller that says so or a cluster that does, nothing is said."""
    told = [e for e in examine(evidence(**refreshing(10.0, 10))) if e.check == "refresh"]
    assert [f.level for f in told] == [Level.ok]
    silent = (refreshing(None, 10), refreshing(3.0, None), {**refreshing(3.0, 10), "nimbus": None})
    assert not any(f.check == "refresh" for fields in silent for f in examine(evidence(**fields)))


def test_a_server_that_hides_its_version_and_an_unknown_nimbus_are_not_wrong() -> None:
    e = evidence(servers=[Server("zk:2181")], nimbus=NimbusSaid(address="n:6627", error="refused"))
    assert bad(e) == []
    assert {f.check for f in examine(e) if f.level is Level.skipped} == {"nimbus", "settings", "sites", "retries"}


def test_plans_that_are_signed_as_nimbus_wants_are_right() -> None:
    """Without controller.yaml, and where nobody signs, nothing is said."""
    (found,) = (f for f in examine(evidence(signs=True, **conf(**KEY))) if f.check == "plan key")
    assert found.level is Level.ok
    silent = ({"signs": False}, conf(**KEY), {"signs": True, "nimbus": None})
    assert not any(f.check == "plan key" for fields in silent for f in examine(evidence(**fields)))


@pytest.mark.parametrize(("signs", "level"), [(True, Level.warn), (False, Level.fail)])
def test_a_nimbus_that_would_lead_and_take_other_plans_is_named(signs: bool, level: Level) -> None:
    right, wrong = (CONF | KEY, CONF) if signs else (CONF, CONF | KEY)
    others = [
        NimbusSaid(address="n2:6627", conf=wrong),
        NimbusSaid(address="n3:6627", error="Nimbus at n3:6627 is not reachable: timed out"),
    ]
    e = evidence(nimbus=NimbusSaid(address="n:6627", conf=right, leader="n", others=others), signs=signs)
    (found,) = (f for f in examine(e) if f.check == "plan key")
    assert found.level is level
    assert "Nimbus at n2:6627 takes" in found.text


def test_slashes_of_a_root_count_once() -> None:
    e = evidence(**conf(**{"stormpilot.zookeeper.root": "//stormpilot/"}))
    assert not [f for f in bad(e) if f.check == "nimbus"]


def test_a_nimbus_that_would_lead_with_other_settings_is_named() -> None:
    own = CONF | {ACL: "sasl:stormpilot"}
    alike = NimbusSaid(address="n2:6627", conf=own | {"stormpilot.zookeeper.root": "/stormpilot"})
    storms = NimbusSaid(address="n3:6627", conf={**CONF, "storm.scheduler": None}, leads=True)
    silent = NimbusSaid(address="n4:6627", error="Nimbus at n4:6627 is not reachable: timed out", leads=True)
    e = evidence(nimbus=NimbusSaid(address="n:6627", conf=own, leader="n3", others=[alike, storms, silent]))
    found = [(f.level, f.text) for f in examine(e) if f.check == "nimbus"]
    assert found[1:] == [
        (
            Level.fail,
            f"storm.scheduler is Storm's default on n3:6627 (it leads), {SCHEDULER} on n:6627",
        ),
        (Level.fail, f"{ACL} is not set on n3:6627 (it leads), sasl:stormpilot on n:6627"),
        (Level.skipped, f"{silent.error}; it leads, and what is told here is by n:6627"),
    ]


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ("digest:pilot:c2VjcmV0", "digest:pilot:... on n2:6627, with another hash"),
        ("sasl:pilot", "sasl:pilot on n2:6627, digest:pilot:..."),
    ],
)
def test_the_hash_of_the_controllers_password_is_not_told(theirs: str, said: str) -> None:
    """Who reads what doctor prints, in a ticket say, could guess passwords by it."""
    other = NimbusSaid(address="n2:6627", conf=CONF | {ACL: theirs})
    own = CONF | {ACL: "digest:pilot:b3RoZXI="}
    found = examine(evidence(nimbus=NimbusSaid(address="n:6627", conf=own, leader="n", others=[other])))
    assert [f.text for f in found if f.check == "nimbus"][1:] == [f"{ACL} is {said} on n:6627"]


def test_a_plug_in_without_a_nimbus_is_not_called_well() -> None:
    e = evidence(nimbus=None, storm_nimbuses=[])
    assert [f.level for f in examine(e) if f.check == "plug-in"] == [Level.skipped]
    unused = evidence(**conf(**{"storm.scheduler": None}))
    assert [f.level for f in examine(unused) if f.check == "plug-in"] == [Level.skipped]
    assert [f.level for f in examine(evidence(storm_nimbuses=["n:6627"])) if f.check == "plug-in"] == [Level.ok]


@pytest.mark.parametrize(("storm", "warned"), [("2.4.0", False), ("2.8.3", False), ("2.3.0", True), ("", True)])
def test_a_storm_that_the_plug_in_was_not_tried_with_is_told(storm: str, warned: bool) -> None:
    shim = ShimPart(version=stormpilot.__version__, storm_version=storm)
    cluster = msgspec.structs.replace(snapshots.cluster("a", "b"), shim=shim)
    assert [f.check for f in bad(evidence(seen=seen(cluster=cluster)))] == ["versions"] * warned


@pytest.mark.parametrize(("asked", "told"), [(2, ""), (3, ", in 2 of the 3 workers that it asks for")])
def test_a_plan_in_fewer_workers_than_storms_scheduler_would_give_is_told(asked: int, told: str) -> None:
    flights = msgspec.structs.replace(FLIGHTS, workers=asked)
    (found,) = (f for f in examine(evidence(seen=seen(topologies={FLIGHTS.id: flights}))) if f.check == "placement")
    assert found.level is Level.ok
    assert found.text.startswith(f"flights: plan p-1 is applied{told}") and ("workers" in found.text) == bool(told)


def test_a_topology_that_the_controller_leaves_alone_needs_no_reports() -> None:
    off = state(topologies=[TopologyView(id=FLIGHTS.id, name="flights", mode="off", action="skip", reason="OFF")])
    assert bad(evidence(seen=seen(controller=off), reports={})) == []


def test_reports_that_come_as_seldom_as_they_are_to_are_not_old() -> None:
    slow = msgspec.structs.replace(FLIGHTS, config={**FLIGHTS.config, "stormpilot.report.secs": 120})
    assert bad(evidence(seen=seen(topologies={slow.id: slow}), reports={slow.id: 200.0})) == []
    assert [f.check for f in bad(evidence(seen=seen(topologies={slow.id: slow}), reports={slow.id: 400.0}))] == [
        "reports"
    ]


def test_one_late_message_does_not_make_a_clock_wrong_whose_others_came_at_once() -> None:
    late = Written(who="the Nimbus host", wrote_at_ms=NOW_MS - 4_000, arrived_at_ms=NOW_MS)
    quick = Written(who="the Nimbus host", wrote_at_ms=NOW_MS, arrived_at_ms=NOW_MS + 3)
    assert bad(evidence(written=[late, quick])) == []
    assert [f.level.value for f in bad(evidence(written=[late]))] == ["warn"]


def test_one_early_message_is_enough_to_know_a_clock_that_is_ahead() -> None:
    early = Written(who="the Nimbus host", wrote_at_ms=NOW_MS + 60_000, arrived_at_ms=NOW_MS)
    late = Written(who="the Nimbus host", wrote_at_ms=NOW_MS, arrived_at_ms=NOW_MS)
    assert [f.level.value for f in bad(evidence(written=[late, early]))] == ["fail"]


def test_without_zookeeper_only_what_can_be_known_is_said() -> None:
    found = examine(
        evidence(servers=[Server("zk:2181", error="refused")], error="does not answer", access=[], nimbus=None)
    )
    assert [(f.check, f.level.value) for f in found] == [
        ("zookeeper", "fail"),
        ("access", "skipped"),
        ("nimbus", "skipped"),
        ("settings", "skipped"),
        ("sites", "skipped"),
        ("retries", "skipped"),
    ]


def test_settings_of_schedulers_that_plans_do_not_honour_are_named_before_the_plug_in_is_installed() -> None:
    ras = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
    said = NimbusSaid(
        address="n:6627",
        conf={"storm.scheduler": ras, "isolation.scheduler.machines": {"billing": 2}},
        confs={
            "flights": {"topology.scheduler.favored.nodes": "n1"},
            "words": {"topology.spread.components": ["count"]},
        },
        component_confs={"words": {"count": {"topology.component.resources.map": {"gpu": 1.0}}}},
    )
    found = [f.text for f in examine(evidence(nimbus=said)) if f.check == "settings"]
    assert found[0] == f"storm.scheduler is {ras}, which would place nothing any more once the plug-in takes its place"
    ends = ": plans do not honour that, so Storm's own scheduler places it (UNSUPPORTED_SETTING)"
    assert found[1:] == [
        f"every topology: isolation.scheduler.machines is {{'billing': 2}}{ends}",
        f"flights: topology.scheduler.favored.nodes is n1{ends}",
    ]
    both = {"storm.scheduler": SCHEDULER, "stormpilot.fallback.scheduler": ras}
    (fine,) = (f for f in examine(evidence(nimbus=NimbusSaid(address="n:6627", conf=both))) if f.check == "settings")
    assert fine.level is Level.ok


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        (True, "no supervisor has supervisor.scheduler.meta site: west"),
        (False, "the plug-in places them only on supervisors with supervisor.scheduler.meta site: west"),
    ],
)
def test_components_that_ask_for_a_site_without_a_supervisor_are_named(installed: bool, said: str) -> None:
    confs = {"flights": {"store": {"site": "west"}, "spare": {"site": "west", "site.required": False}, "parse": {}}}
    asked = NimbusSaid(address="n:6627", conf=CONF, component_confs=confs)
    there = {} if installed else {"seen": seen(cluster=None)}
    (found,) = (f for f in examine(evidence(nimbus=asked, **there)) if f.check == "sites")
    assert found.level is Level.warn
    assert found.text == f"flights: store ask for site west; {said}"
    tagged = snapshots.cluster("a", "b")
    tagged = msgspec.structs.replace(
        tagged, supervisors=[msgspec.structs.replace(s, meta={"site": "west"}) for s in tagged.supervisors]
    )
    (fine,) = (f for f in examine(evidence(nimbus=asked, seen=seen(cluster=tagged))) if f.check == "sites")
    assert fine.level is Level.ok
    assert [f.level for f in examine(evidence(nimbus=None)) if f.check == "sites"] == [Level.skipped]
