"""What the routes answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from doubles.snapshots import topology
from stormpilot.config import ZooKeeperSection
from stormpilot.messages.core import encode
from stormpilot.messages.settings import AuditRecord
from stormpilot.observe.reader import Reader
from stormpilot.operate.status import gather

from .conftest import API, ID, NAME, NOW_MS, Api, read, send

# --- reading ----------------------------------------------------------------------------------------------------------


def test_status_is_what_the_command_prints(api: Api) -> None:
    seen = Reader(api.source.zookeeper, api.paths).read()
    expected = gather("127.0.0.1:2181", api.paths, seen, [], seen.problems, NOW_MS)
    shown = read(api, f"{API}/status")
    assert shown["controller"] == expected["controller"]
    (row,) = shown["topologies"]
    assert row["decision"]["reason"] == "GAIN"
    assert row["reportsAgeS"] == 3.0
    assert read(api, f"{API}/topologies") == shown["topologies"]


def test_topology_is_found_by_name_and_by_id(api: Api) -> None:
    assert read(api, f"{API}/topologies/flights") == read(api, f"{API}/topologies/{ID}")


def test_topology_of_a_name_is_the_one_launched_last(api: Api) -> None:
    """Of one that was killed a snapshot stays for a while, and its id may come later in the order of text."""
    old = "flights-9-1763680000"
    killed = topology(id=old, launched_at_ms=1)
    api.zookeeper.put(api.paths.topology(old), encode(killed))
    assert read(api, f"{API}/topologies/flights")["id"] == ID
    assert read(api, f"{API}/topologies/{old}")["id"] == old
    assert read(api, f"{API}/topologies/flights/plan")["plan"]["topologyId"] == ID


@pytest.mark.parametrize("what", ["", "/plan", "/plan/diff", "/explain", "/history"])
def test_unknown_topology_is_a_problem_that_names_those_there_are(api: Api, what: str) -> None:
    with api.client("viewer") as client:
        answer = client.get(f"{API}/topologies/flihgts{what}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "UNKNOWN_TOPOLOGY"
    assert "there are: flights" in problem["detail"]


def test_plan_diff_and_explain(api: Api) -> None:
    plan = read(api, f"{API}/topologies/flights/plan")
    assert (plan["proposal"], plan["plan"]["planId"]) == (True, "p-1")
    moves = read(api, f"{API}/topologies/flights/plan/diff")["moves"]
    assert [(m["start"], m["now"], m["plan"]) for m in moves] == [(t, "b:6700", "a:6700") for t in (4, 5, 6)]
    explained = read(api, f"{API}/topologies/flights/explain")
    assert explained["reason"] == "advise GAIN: inter-node traffic falls by 100%"
    assert explained["moves"] == moves


def test_explain_tells_the_gates_and_on_request_the_executors(api: Api) -> None:
    explained = read(api, f"{API}/topologies/flights/explain")
    assert {g["state"] for g in explained["gates"]} == {"open"}
    assert explained["executors"] == []
    explained = read(api, f"{API}/topologies/flights/explain?executors=true")
    executors = explained["executors"]
    assert (explained["traffic"], explained["nodesOverLimit"]) == ("measured", [])  # nothing is shuffled
    assert (executors[0]["component"], executors[0]["start"], executors[0]["host"]) == ("source", 1, "host-a")
    assert len(executors) == 6


def test_what_if_a_node_were_gone(api: Api) -> None:
    """In a process of its own; who only looks may not ask for it, and nothing is touched."""
    with api.client("viewer") as client:
        assert client.post(f"{API}/what-if", json={"removeNodes": ["b"]}).status_code == 403
    before = dict(api.zookeeper._nodes)
    status, found = send(api, "what-if", removeNodes=["host-b"], planner="online", budgetS=5)
    assert status == 200, found
    (plan,) = found["plan"]["topologies"]
    assert {w["supervisor"] for w in plan["workers"]} == {"a"}
    assert found["then"]["inter_node_tps"] == found["then"]["flow_inter_node_tps"] == 0
    assert found["now"].keys() == found["then"].keys()
    assert api.zookeeper._nodes == before
    status, problem = send(api, "what-if", removeNodes=["host-x"], planner="online")
    assert (status, problem["code"]) == (400, "INVALID")
    assert "host-x" in problem["detail"]
    status, problem = send(api, "what-if", removeNode=["host-b"])
    assert (status, problem["code"]) == (400, "INVALID")


def test_what_if_goes_by_the_traffic_of_the_configuration(api: Api) -> None:
    measured = msgspec.structs.replace(api.config.planner, traffic="measured")
    api.source.config = msgspec.structs.replace(api.config, planner=measured)
    status, found = send(api, "what-if", removeNodes=["host-b"], planner="online", budgetS=5)
    assert status == 200, found
    assert not [name for name in found["now"] | found["then"] if name.startswith("flow_")]


def test_topology_without_a_plan_is_explained_too(api: Api) -> None:
    api.zookeeper.delete(api.paths.proposal(ID))
    assert read(api, f"{API}/topologies/flights/explain")["noPlan"] == f"there is no plan for {ID}"
    with api.client("viewer") as client:
        answer = client.get(f"{API}/topologies/flights/plan")
    assert (answer.status_code, answer.json()["code"]) == (409, "REFUSED")


def test_model_is_what_plan_compute_reads(api: Api) -> None:
    model = read(api, f"{API}/model")
    assert [s["id"] for s in model["supervisors"]] == ["a", "b"]
    assert model["topologies"][0]["name"] == "flights"


def test_standby_serves_what_is_in_zookeeper_and_says_who_leads(api: Api) -> None:
    api.board.become("standby", leader="n2:8")
    assert read(api, f"{API}/status")["controller"]["leader"] == NAME
    with api.client("viewer") as client:
        answer = client.get(f"{API}/model")
        assert answer.status_code == 503
        assert f"{NAME} leads; ask the API on n1" in answer.json()["detail"]
        assert client.get("/readyz").json()["text"].startswith(f"standby for {NAME}")


def test_readiness_of_a_standby_costs_zookeeper_one_znode_and_says_what_it_cannot_read(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may ask, and it read the whole tree; what it could not read the leader "had not written yet"."""
    api.board.become("standby", leader="n2:8")
    read_paths: list[str] = []
    reading = api.zookeeper.read

    def counting(paths: Sequence[str], *more: Any, **named: Any) -> Any:
        read_paths.extend(paths)
        return reading(paths, *more, **named)

    monkeypatch.setattr(api.zookeeper, "read", counting)
    monkeypatch.setattr(api.zookeeper, "children", lambda *_, **__: pytest.fail("it lists folders"))
    with api.client("viewer") as client:
        assert client.get("/readyz").json()["text"].startswith(f"standby for {NAME}, whose last cycle was")
        assert read_paths == [api.source.paths.controller]
        api.zookeeper.denied.add(api.source.paths.controller)
        assert client.get("/readyz").json()["text"].startswith("standby for n2:8, whose state cannot be read: ")


def test_config_shows_no_secret(api: Api) -> None:
    values = read(api, f"{API}/config")
    assert values["decide.mode"] == "advise"
    assert values["notify.url"] == "https://example.org/..."
    for secret in ("pw@", "T000", "key=1"):
        assert secret not in str(values)


@pytest.mark.parametrize(
    ("acl", "shown"), [("digest:storm:c2VjcmV0=", "digest:storm:..."), ("sasl:storm", "sasl:storm"), (None, None)]
)
def test_config_shows_whom_an_access_list_names_without_the_hash(api: Api, acl: str | None, shown: str | None) -> None:
    section = ZooKeeperSection(auth_file="login", nimbus_acl=acl)
    api.source.config = msgspec.structs.replace(api.config, zookeeper=section)
    assert read(api, f"{API}/config")["zookeeper.nimbus_acl"] == shown


def test_planners(api: Api) -> None:
    assert {"best", "online", "default"} <= {p["name"] for p in read(api, f"{API}/planners")}


def test_away_zookeeper_is_503_and_health_is_told_apart(api: Api) -> None:
    api.zookeeper.up = False
    with api.client("viewer") as client:
        answer = client.get(f"{API}/status")
        assert (answer.status_code, answer.json()["code"]) == (503, "UNREACHABLE")
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
def test_load_balancers_that_probe_otherwise_get_the_same_status(api: Api, method: str) -> None:
    """OPTIONS was 204 of one that was not ready."""
    with api.client() as client:
        assert client.request(method, "/readyz").status_code == client.request(method, "/healthz").status_code == 200
        api.zookeeper.up = False
        assert client.request(method, "/readyz").status_code == 503
        assert client.request(method, "/healthz").status_code == 200


def test_many_readers_cost_zookeeper_one_reading(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    children = api.zookeeper.children

    def count(*args: Any) -> Any:
        nonlocal counted
        counted += 1
        return children(*args)

    monkeypatch.setattr(api.zookeeper, "children", count)
    monkeypatch.setattr("stormpilot.api.source.FRESH_S", 60.0)
    with api.client("viewer") as client:
        client.get(f"{API}/status")
        once = counted
        for _ in range(20):
            client.get(f"{API}/status")
    assert counted == once > 0


# --- metrics, schema --------------------------------------------------------------------------------------------------


def test_audit_without_what_a_controller_did_on_its_own(api: Api) -> None:
    def record(id: str, **fields: str) -> AuditRecord:
        return AuditRecord(id=id, at_ms=NOW_MS, verb="publish", target="flights", **fields)

    put, path = api.zookeeper.put, api.paths.audit
    put(path("e-0000000001"), encode(record("own", who=NAME, carried_out_by=NAME)))
    put(path("e-0000000002"), encode(record("approved", who="ann", carried_out_by=NAME)))
    put(path("e-0000000003"), encode(record("own2", who=NAME, carried_out_by=NAME)))
    assert [r["id"] for r in read(api, f"{API}/audit")] == ["own2", "approved", "own"]
    assert [r["id"] for r in read(api, f"{API}/audit?operators=true&limit=1")] == ["approved"]
    with api.client() as client:
        assert "operators=true" in client.get("/").text


def test_requests_are_counted_by_route_not_by_address(api: Api) -> None:
    """Whoever asks for a thousand names must not make a thousand series."""
    with api.client("viewer") as client:
        for name in ("x1", "x2", "x3"):
            client.get(f"{API}/topologies/{name}")
            client.get(f"/{name}")
        text = client.get("/metrics").text
    families = {f.name: f for f in text_string_to_metric_families(text)}
    counted = {(s.labels["route"], s.labels["status"]): s.value for s in families["stormpilot_api_requests"].samples}
    assert counted[f"{API}/topologies/{{topology}}", "404"] == 3
    assert not [route for route, _ in counted if "x1" in route]


def test_methods_that_http_does_not_know_are_counted_as_one(api: Api) -> None:
    """Who has no token cannot make a new series with every request."""
    for n in range(3):
        api.client().request(f"X{n}", "/healthz")
    families = {f.name: f for f in text_string_to_metric_families(api.metrics.text().decode())}
    counted = {s.labels["method"]: s.value for s in families["stormpilot_api_requests"].samples}
    assert counted == {"other": 3}


def test_schema_describes_every_route(api: Api) -> None:
    with api.client() as client:
        schema = client.get("/schema/openapi.json").json()
        assert client.get("/schema/openapi.yaml").status_code == 200
    assert len(schema["paths"]) == 35
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
            assert operation["security"] == [{"token": []}], path
    assert schema["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert "dryRun" in schema["components"]["schemas"]["RollbackBody"]["properties"]


def test_methods_that_are_not_there(api: Api) -> None:
    with api.client("admin") as client:
        for call in (client.delete, client.put, client.patch):
            assert call(f"{API}/status").status_code == 405
        assert client.get(f"{API}/pause").status_code == 405


def test_application_needs_no_cluster(make: Callable[..., Api]) -> None:
    """An empty ZooKeeper: every read answers, none with an error of ours."""
    api = make()
    with api.client("viewer") as client:
        shown = client.get(f"{API}/status").json()
        assert shown["controller"]["text"].startswith("no controller has run here yet")
        assert client.get(f"{API}/topologies").json() == []
        assert client.get(f"{API}/audit").json() == []
        assert client.get(f"{API}/model").status_code == 503
        assert client.get("/metrics").status_code == 200
