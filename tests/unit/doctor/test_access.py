"""Access and logins as the doctor judges them: who may write what is ours."""

from __future__ import annotations

from doubles.installations import bad, conf, evidence
from stormpilot.doctor import Level, examine
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
