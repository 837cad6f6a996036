"""A configuration that is reloaded: what changed, what waits for a restart, what is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from stormpilot.config import Config, describe, parse
from stormpilot.config.reload import NEEDS_RESTART, Loaded, changed_keys, needs_restart, usable
from stormpilot.control.daemon import Daemon
from stormpilot.errors import UsageError
from stormpilot.observe.load import LoadHistory
from stormpilot.planner import compute

OLD = parse("decide: {mode: advise}\napi: {port: 8470}", "old.yaml")
NEW = parse(
    "zookeeper: {hosts: 'zk:2181'}\ndecide: {mode: act}\napi: {port: 9000}\nplanner: {seed: 7, traffic: measured}\n"
    "log: {level: debug, format: json}\ntraffic_log: {dir: /kept, max_mb: 5}",
    "new.yaml",
)


def test_what_changed_is_named_and_what_waits_for_a_restart_told_apart() -> None:
    changed = changed_keys(OLD, NEW)
    waiting = {"zookeeper.hosts", "planner.traffic", "traffic_log.dir", "api.port", "log.format"}
    assert set(changed) == waiting | {"decide.mode", "planner.seed", "traffic_log.max_mb", "log.level"}
    assert {k for k in changed if needs_restart(k)} == waiting
    assert changed_keys(OLD, OLD) == []


def test_what_is_usable_is_new_but_for_what_needs_a_restart() -> None:
    used = usable(OLD, NEW)
    assert changed_keys(OLD, used) == [k for k in changed_keys(OLD, NEW) if not needs_restart(k)]
    assert changed_keys(used, NEW) == [k for k in changed_keys(OLD, NEW) if needs_restart(k)]


def test_every_name_that_needs_a_restart_exists() -> None:
    keys = [key for key, _ in describe(Config())]
    for name in NEEDS_RESTART:
        assert any(key == name or key.startswith(f"{name}.") for key in keys), name


def daemon(read: object) -> Daemon:
    return Daemon(OLD, compute, "online", "default", read)  # type: ignore[arg-type]


def test_a_good_configuration_is_announced_with_its_keys_and_never_its_values() -> None:
    secret = parse("notify: {url: 'https://hooks.example/secret'}\napi: {port: 9000}", "new.yaml")
    with capture_logs() as lines:
        daemon(lambda: Loaded(secret, "online", "default")).reload()
    (read, waiting) = lines
    assert (read["event"], read["changed"]) == ("configuration reloaded", "notify.url")
    assert waiting["settings"] == "api.port"
    assert "secret" not in str(lines)


def test_a_dry_run_tells_the_changes_and_leaves_the_configuration_and_the_log() -> None:
    one = daemon(lambda: Loaded(NEW, "online", "default"))
    with capture_logs() as lines:
        told = one.reload(dry_run=True)
    assert lines == []
    assert not one._loaded
    assert told == one.reload()


def test_a_bad_configuration_is_refused_with_its_line(tmp_path: Path) -> None:
    def read() -> Loaded:
        return Loaded(parse("decide:\n  mode: atc", str(tmp_path / "c.yaml")), "online", "default")

    with capture_logs() as lines, pytest.raises(UsageError, match="atc"):
        daemon(read).reload()
    (line,) = lines
    assert line["log_level"] == "error"
    assert "c.yaml:2: decide.mode" in str(line["why"])


@pytest.mark.parametrize("failure", [UsageError("no such file"), OSError("gone"), RuntimeError("a bug")])
def test_whatever_goes_wrong_while_reading_is_logged_and_told(failure: Exception) -> None:
    def read() -> Loaded:
        raise failure

    with capture_logs() as lines, pytest.raises(type(failure)):
        daemon(read).reload()
    assert "the old one stays" in lines[0]["event"]


def test_a_resized_history_spaces_and_keeps_its_samples_for_the_new_window() -> None:
    history, fresh = LoadHistory(60.0), LoadHistory(10.0)
    history.resize(10.0)
    assert vars(history) == vars(fresh)
