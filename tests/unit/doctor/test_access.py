"""Access and logins as the doctor judges them: who may write what is ours."""

from __future__ import annotations

from typing import Any

import pytest

from doubles.installations import FLIGHTS, OPEN, bad, conf, evidence
from stormpilot.doctor import Finding, Level, examine
from stormpilot.doctor.evidence import Access


def test_what_is_open_is_told_with_how_to_close_it_where_nobody_logs_in() -> None:
    (found,) = [f for f in examine(evidence()) if f.check == "access"]
    assert found.level is Level.ok
    assert "any worker can write plans, settings" in found.text
    assert "storm.zookeeper.auth.scheme" in found.fix
    assert "publish.plan_key_file" in found.fix


def test_a_controller_with_a_login_of_its_own_needs_only_what_it_does() -> None:
    """It reads what Nimbus and topologies write; plans are its own."""
    nimbus, mine = ("digest", "storm:y", "rwcda"), "storm-controller:x"
    read = Access(path="/stormpilot/v1/load", needs="r", entries=[nimbus, ("digest", mine, "rd")])
    plans = Access(path="/stormpilot/v1/plans", entries=[("digest", "storm:y", "rd"), ("digest", mine, "rwcda")])
    assert (
        bad(evidence(access=[read, plans], ids=[("digest", mine)], **conf(**{"storm.zookeeper.auth.scheme": "digest"})))
        == []
    )
    denied = Access(path="/stormpilot/v1/plans", entries=[nimbus, ("digest", mine, "r")])
    assert [
        f.check
        for f in bad(
            evidence(access=[read, denied], ids=[("digest", mine)], **conf(**{"storm.zookeeper.auth.scheme": "digest"}))
        )
    ] == ["access"]


def test_znodes_of_our_own_login_are_right() -> None:
    mine = Access(path="/stormpilot", entries=[("digest", "storm:x", "rwcda")])
    assert (
        bad(evidence(access=[mine], ids=[("digest", "storm:x")], **conf(**{"storm.zookeeper.auth.scheme": "digest"})))
        == []
    )


def test_znodes_of_our_sasl_login_are_right_and_how_zookeeper_is_asked_is_told() -> None:
    mine = Access(path="/stormpilot", entries=[("sasl", "storm", "rwcda"), ("x509", "CN=localhost", "rwcda")])
    e = evidence(access=[mine], ids=[("sasl", "storm")], tls=True)
    assert bad(e) == []
    assert [f.text for f in examine(e) if f.check == "login"] == ["ZooKeeper is asked by TLS, as storm (sasl)"]


PILOT, STORM = ("digest", "pilot:x"), ("digest", "storm:y")
LOGINS = {"ids": [PILOT], "nimbus_ids": [STORM], **conf(**{"storm.zookeeper.auth.scheme": "digest"})}


def access(path: str, needs: str, *entries: tuple[tuple[str, str], str], **fields: Any) -> list[Finding]:
    listed = [(*who, letters) for who, letters in entries] or OPEN
    e = evidence(access=[Access(path=path, needs=needs, entries=listed)], **{**LOGINS, **fields})
    return [f for f in bad(e) if f.check == "access"]


@pytest.mark.parametrize(
    ("path", "needs", "mends"),
    [
        ("", "rc", "setAcl /stormpilot digest:pilot:HASH:rc,digest:storm:HASH:cdrwa"),
        ("/v1/cluster", "r", "setAcl /stormpilot/v1/cluster digest:pilot:HASH:r,digest:storm:HASH:cdrwa"),
        ("/v1/load", "r", "setAcl /stormpilot/v1/load digest:pilot:HASH:rd,digest:storm:HASH:cdrwa"),
        ("/v1/plans/f-1", "rwc", "setAcl /stormpilot/v1/plans/f-1 digest:pilot:HASH:cdrwa,digest:storm:HASH:rd"),
        ("/v1/plans", "rwc", "setAcl -R /stormpilot/v1/plans digest:pilot:HASH:cdrwa,digest:storm:HASH:rd"),
        ("/v1/routes", "rwc", "setAcl /stormpilot/v1/routes digest:pilot:HASH:cdrwa,digest:storm:HASH:rd"),
    ],
)
def test_what_is_open_is_closed_for_everyone_but_both_logins(path: str, needs: str, mends: str) -> None:
    """`setAcl -R /stormpilot auth::cdrwa` by the controller's login shut out Nimbus, and every worker from `load`."""
    (found,) = access(f"/stormpilot{path}", needs)
    assert "may be changed by anyone" in found.text
    assert mends in found.fix


def test_one_login_for_both_closes_the_open_znode_alone() -> None:
    (found,) = access("/stormpilot/v1", "rc", nimbus_ids=[])
    assert "setAcl /stormpilot/v1 auth::cdrwa" in found.fix
    assert "set zookeeper.nimbus_acl first" in found.fix


@pytest.mark.parametrize("logins", [LOGINS, {"nimbus_ids": []}])
def test_load_reports_that_are_open_are_closed_by_the_topology(logins: dict[str, Any]) -> None:
    """Their workers have a login of their own, which neither Nimbus nor the controller is."""
    (found,) = access(f"/stormpilot/v1/load/{FLIGHTS.id}", "r", **logins)
    assert found.fix.startswith("submit flights again")
    assert "setAcl" not in found.fix


@pytest.mark.parametrize(
    ("path", "needs", "pilot", "lacks"),
    [
        ("cluster", "r", "cdrwa", "write"),
        ("status", "r", "cdrwa", "write"),
        ("plans", "rwc", "cdrwa", "read"),
    ],
)
def test_a_login_of_storm_that_may_not_do_its_part_is_told(path: str, needs: str, pilot: str, lacks: str) -> None:
    """All was `ok` after Nimbus had been shut out."""
    znode = f"/stormpilot/v1/{path}"
    (found,) = access(znode, needs, (PILOT, pilot))
    assert found.text == (f"{znode} belongs to digest:pilot; Storm's login (zookeeper.nimbus_acl) may not {lacks} it")
    assert "digest:storm:HASH" in found.fix
    assert "correct zookeeper.nimbus_acl" in found.fix
    assert access(znode, needs, (PILOT, pilot), (STORM, "rd" if lacks == "read" else "cdrwa")) == []
