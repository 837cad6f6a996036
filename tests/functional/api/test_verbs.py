"""Verbs over HTTP: what they change, what they refuse, and what is kept of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stormpilot.errors import UnreachableError
from stormpilot.messages.core import decode, encode
from stormpilot.messages.rollouts import Rollout

from .conftest import API, ID, Api, read, send

MESSAGES = Path(__file__).parents[2] / "contract"


def test_pause_and_resume_by_token_are_audited(api: Api) -> None:
    status, change = send(api, "pause", topology="flights", why="new disk")
    assert (status, change["text"], change["before"]) == (200, "flights: paused", None)
    setting = api.setting(api.paths.pause("flights"))
    assert setting is not None
    assert (setting["by"], setting["why"]) == ("ann-operator", "new disk")
    assert read(api, f"{API}/status")["topologies"][0]["paused"]  # not an old answer
    assert send(api, "resume", topology="flights")[1]["changed"]
    assert api.setting(api.paths.pause("flights")) is None
    records = read(api, f"{API}/audit")
    assert [(r["verb"], r["who"], r["target"]) for r in records] == [
        ("resume", "ann-operator", "flights"),
        ("pause", "ann-operator", "flights"),
    ]
    assert records[1]["why"] == "new disk"
    assert len(read(api, f"{API}/audit?limit=1")) == 1


def test_dry_run_changes_nothing(api: Api) -> None:
    status, change = send(api, "pause", dryRun=True)
    assert (status, change["changed"], change["dryRun"]) == (200, True, True)
    assert change["after"]["by"] == "ann-operator"
    assert api.setting(api.paths.pause()) is None
    assert read(api, f"{API}/audit") == []


def test_misspelt_field_does_not_do_it_for_real(api: Api) -> None:
    status, problem = send(api, "pause", dryrun=True)
    assert (status, problem["code"]) == (400, "INVALID")
    assert "dryrun" in problem["detail"]
    assert api.setting(api.paths.pause()) is None


def test_dangerous_verb_wants_confirmation(api: Api) -> None:
    status, problem = send(api, "drain", host="host-a")
    assert (status, problem["code"], problem["field"]) == (409, "CONFIRM", "confirm")
    assert "executors restart elsewhere: 3 executors (3 of flights)" in problem["detail"]
    assert api.setting(api.paths.drain("host-a")) is None
    status, change = send(api, "drain", host="host-a", confirm=True)
    assert (status, change["after"]["host"]) == (200, "host-a")
    assert api.setting(api.paths.drain("host-a")) is not None
    assert read(api, f"{API}/hosts/host-a/remaining")["executors"] == {"flights": 3}
    for dots in ("%2e", "%2e%2e"):
        with api.client("viewer") as client:
            assert client.get(f"{API}/hosts/{dots}/remaining").status_code in (400, 404)
    assert send(api, "undrain", host="host-a")[0] == 200


def test_request_to_the_leader_is_accepted_and_followed(api: Api) -> None:
    status, change = send(api, "approve", topology="flights", confirm=True)
    assert status == 202
    with api.client("viewer") as client:
        pending = client.get(f"{API}/requests/{change['requestId']}")
    assert (pending.status_code, pending.json()["code"]) == (404, "PENDING")
    status, problem = send(api, "discard", topology="flights")
    assert (status, problem["code"]) == (409, "REFUSED")  # one at a time


@pytest.mark.parametrize(
    ("verb", "body", "status", "said"),
    [
        ("mode", {"mode": "fast"}, 400, "fast"),
        ("mode", {}, 400, "mode"),
        ("rollback", {"topology": "flights", "steps": 0}, 400, "1"),
        ("rollback", {"topology": "flights"}, 409, "there is no plan 1 back"),
        ("approve", {"topology": "nope"}, 404, "no topology is named 'nope'"),
        ("drain", {"host": "nowhere"}, 409, "there is no supervisor on 'nowhere'"),
        ("pin", {"topology": "flights", "component": "nope", "supervisor": "a"}, 409, "has no component 'nope'"),
        ("pause", {"topology": "../x"}, 400, "not the name of a topology"),
        ("pause", {"why": "x" * 3000}, 400, "2000"),
    ],
)
def test_what_is_wrong_is_said(api: Api, verb: str, body: dict[str, Any], status: int, said: str) -> None:
    got, problem = send(api, verb, **body)
    assert got == status, problem
    assert said in problem["detail"]
    assert problem["title"]


def test_pin_and_mode(api: Api) -> None:
    pin = {"topology": "flights", "component": "parse", "supervisor": "host-b", "why": "licence"}
    status, problem = send(api, "pin", **pin)
    assert (status, problem["code"]) == (409, "CONFIRM")
    assert "executors restart elsewhere" in problem["detail"]
    status, change = send(api, "pin", **pin, confirm=True)
    assert (status, change["after"]["supervisor"]) == (200, "b")
    assert send(api, "unpin", topology="flights", component="parse")[1]["changed"]
    assert send(api, "mode", topology="flights", mode="act", confirm=True)[1]["after"]["mode"] == "act"
    assert send(api, "replan", topology="flights")[0] == 409, "it acts from the next cycle on: workers may restart"
    assert send(api, "replan", topology="flights", confirm=True)[0] == 202


def test_thresholds_are_set_frozen_and_unset(api: Api) -> None:
    name = "decide.gain_threshold_ratio"
    status, change = send(api, "thresholds/set", topology="flights", name=name, value=0.2, why="quiet week")
    assert (status, change["after"]["value"], change["after"]["why"]) == (200, 0.2, "quiet week")
    refused, problem = send(api, "thresholds/freeze", topology="flights", name=name)
    assert (refused, problem["code"]) == (409, "REFUSED")
    unusual, problem = send(api, "thresholds/set", topology="flights", name=name, value=0.9)
    assert (unusual, problem["code"]) == (409, "CONFIRM")
    assert "outside 0.02 to 0.5" in problem["detail"]
    assert send(api, "thresholds/set", topology="flights", name=name, value=7)[0] == 400
    assert send(api, "thresholds/set", topology="flights", name="decide.cpu_limit_ratio", value=0.7)[0] == 400
    assert send(api, "thresholds/unset", topology="flights", name=name)[1]["changed"]
    assert send(api, "thresholds/set", name=name, value=0.2)[0] == 403  # of all topologies: admin only


def test_mode_act_wants_confirmation_with_the_number_of_executors(api: Api) -> None:
    status, problem = send(api, "mode", topology="flights", mode="act")
    assert (status, problem["code"]) == (409, "CONFIRM")
    assert "flights at once: up to 3 of 6 executors of flights (proposed plan p-1)" in problem["detail"]
    assert api.setting(api.paths.mode("flights")) is None
    api.zookeeper.delete(api.paths.proposal(ID))
    assert "up to 6 of 6 executors of flights" in send(api, "mode", topology="flights", mode="act")[1]["detail"]
    assert send(api, "mode", topology="flights", mode="advise")[0] == 200
    assert send(api, "mode", topology="later", mode="act")[0] == 200  # it does not run: nothing can move


def test_a_rollout_is_shown_paused_resumed_and_aborted(api: Api) -> None:
    with api.client("viewer") as client:
        none = client.get(f"{API}/topologies/flights/rollout")
    assert (none.status_code, none.json()["code"]) == (404, "NO_ROLLOUT")
    assert send(api, "rollout/pause", topology="flights")[1]["code"] == "REFUSED"
    m = decode((MESSAGES / "rollout.json").read_bytes(), Rollout, "rollout.json")
    m = msgspec.structs.replace(m, topology_id=ID, abort_by="")
    api.zookeeper.put(api.paths.rollout(ID), encode(m))
    shown = read(api, f"{API}/topologies/flights/rollout")
    assert (shown["step"], shown["steps"], shown["phase"], shown["away"]) == (2, 2, "moving", [6])
    (row,) = read(api, f"{API}/topologies")
    assert row["rollout"]["text"].startswith("p-0001: step 2 of 2, moving")
    assert send(api, "rollout/pause", topology="flights")[1]["after"]["pausedBy"] == "ann-operator"
    assert not send(api, "rollout/pause", topology="flights")[1]["changed"]
    assert send(api, "rollout/resume", topology="flights")[1]["after"]["pausedBy"] == ""
    status, problem = send(api, "rollout/abort", topology="flights")
    assert (status, problem["code"]) == (409, "CONFIRM")
    assert send(api, "rollout/abort", topology="flights", confirm=True)[0] == 200
    assert read(api, f"{API}/topologies/flights/rollout")["abortBy"] == "ann-operator"


def test_large_body_and_broken_json_are_refused(api: Api) -> None:
    with api.client("operator") as client:
        headers = {"Content-Type": "application/json"}
        large = client.post(f"{API}/pause", content=b'{"why": "' + b"x" * 100_000 + b'"}', headers=headers)
        assert large.status_code == 413
        broken = client.post(f"{API}/pause", content=b'{"why": ', headers=headers)
        assert broken.status_code == 400
        assert broken.json()["code"] == "INVALID"


def test_error_of_ours_tells_the_outside_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("password=secret")

    monkeypatch.setattr(api.zookeeper, "children", fail)
    with api.client("viewer") as client:
        answer = client.get(f"{API}/status")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert "secret" not in answer.text


def test_a_change_whose_answer_is_lost_is_called_uncertain_and_seen_by_the_next_reading(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ZooKeeper that stalls does what it was sent a moment later, and it was told as away, so not done."""
    assert "flights" not in read(api, f"{API}/status")["paused"]
    commit = api.zookeeper.commit

    def unheard(steps: Any) -> None:
        commit(steps)
        raise UnreachableError("ZooKeeper does not answer within 5 s")

    monkeypatch.setattr(api.zookeeper, "commit", unheard)
    status, problem = send(api, "pause", topology="flights")
    assert (status, problem["code"]) == (503, "UNCERTAIN")
    assert problem["detail"] == (
        "flights: pause was sent, and may have been done: ZooKeeper does not answer within 5 s; `stormpilot audit` "
        "shows it if so"
    )
    assert "flights" in read(api, f"{API}/status")["paused"]
