"""What `config check`, the API and logs tell of settings that may hold a secret."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from stormpilot.cli import app
from stormpilot.config import Config, NotifySection, ZooKeeperSection, parse
from stormpilot.config.secrets import described_openly, exposed_files
from stormpilot.config.sections import TrafficLogSection
from stormpilot.printable import without_login

SECRETIVE = """\
notify: {url: 'https://ann:TOPSECRET@hooks.example/services/TOPSECRET?token=TOPSECRET'}
zookeeper: {auth_file: login, nimbus_acl: 'digest:storm:TOPSECRET='}
"""


def test_logins_tokens_and_hashes_are_not_told() -> None:
    values = described_openly(
        Config(
            notify=NotifySection(url="https://ann:SECRET@hooks.example/services/SECRET?token=SECRET"),
            traffic_log=TrafficLogSection(dir="s3://KEY:SECRET@bucket/log?region=eu-west-1"),
            zookeeper=ZooKeeperSection(auth_file="login", nimbus_acl="digest:storm:SECRET="),
        )
    )
    assert "SECRET" not in str(values)
    assert values["notify.url"] == "https://hooks.example/..."
    assert values["traffic_log.dir"] == "s3://bucket/log"
    assert values["zookeeper.nimbus_acl"] == "digest:storm:..."


@pytest.mark.parametrize(
    ("told", "of"),
    [
        ("s3a://bucket/x", "s3a://KEY:SECRET/SECRET@bucket/x"),
        ("s3://bucket", "s3://bucket?secret_key=SECRET"),
        ("s3://bucket/x", "s3://K:SE?CRET@bucket/x"),
        ("hdfs://nn:8020/log/u@x", None),
        ("hdfs://[::1]:8020/log", None),
        ("hdfs://ann@nn:8020/log", None),
        ("/var/log/a:b@c", None),
    ],
)
def test_a_place_is_told_without_its_login(told: str, of: str | None) -> None:
    assert without_login(of or told) == told.replace("ann@", "")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://ann:SE/CRET@hooks.example/SECRET", "hooks.example"),
        ("https://ann:SE?CRET@hooks.example/x", "hooks.example"),
        ("https://hooks.example:8443/services/a@SECRET", "hooks.example:8443"),
    ],
)
def test_of_an_address_the_host_alone_is_told(url: str, host: str) -> None:
    assert described_openly(Config(notify=NotifySection(url=url)))["notify.url"] == f"https://{host}/..."


def test_what_is_not_set_is_told_as_such() -> None:
    values = described_openly(Config())
    assert (values["notify.url"], values["zookeeper.nimbus_acl"]) == (None, None)


@pytest.mark.parametrize("form", ["table", "json"])
def test_config_check_tells_no_secret(tmp_path: Path, form: str) -> None:
    """systemd writes what it prints before each start into the journal."""
    file = tmp_path / "controller.yaml"
    file.write_text(SECRETIVE)
    (tmp_path / "login").write_text("ann:TOPSECRET")
    done = CliRunner().invoke(app, ["config", "check", str(file), "-f", form])
    assert done.exit_code == 0, done.exception
    assert "hooks.example" in done.stdout
    assert "TOPSECRET" not in done.stdout


def test_files_with_secrets_that_everybody_can_read_are_named() -> None:
    """The password of Storm's daemons lay beside controller.yaml with mode 644, and doctor found nothing."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders let nobody else in
        folder = Path(name)
        for mode in (0o644, 0o640):
            (folder / f"{mode:o}").write_text("storm:secret")
            (folder / f"{mode:o}").chmod(mode)
        text = f"zookeeper: {{auth_file: {folder}/644}}\npublish: {{plan_key_file: {folder}/640}}"
        config, other = parse(text, "c.yaml"), folder / "644"
        assert exposed_files(config, other) == {}, "others cannot enter the folder"
        folder.chmod(0o755)
        assert exposed_files(config, other) == {"zookeeper.auth_file": f"{folder}/644"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID))
            assert exposed_files(config, other) == {}, "a secret of Kubernetes, or the key of the compose cluster"
        (folder / "644").unlink()
        assert exposed_files(config, other) == {}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (SECRETIVE.replace("auth_file: login", "jaas_file: jaas"), "zookeeper.nimbus_acl, notify.url"),
        ("traffic_log: {dir: 's3a://KEY:SECRET@bucket/x'}", "traffic_log.dir"),
        ("notify: {url: 'https://hooks.example?token=SECRET'}", "notify.url"),
        ("notify: {url: 'https://hooks.example/#SECRET'}", "notify.url"),
        ("notify: {url: 'https://hooks.example/'}\ntraffic_log: {dir: 's3a://bucket/x'}", None),
        ("zookeeper: {jaas_file: jaas, nimbus_acl: 'sasl:storm'}", None),
    ],
)
def test_a_configuration_with_secrets_that_everybody_can_read_is_named(text: str, keys: str | None) -> None:
    """Doctor looked at the files that it names alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders let nobody else in
        file = Path(name) / "controller.yaml"
        file.write_text(text)
        file.parent.chmod(0o755)
        file.chmod(0o644)
        assert exposed_files(parse(text, str(file)), file) == ({} if keys is None else {keys: str(file)})
        file.chmod(0o640)
        assert exposed_files(parse(text, str(file)), file) == {}
