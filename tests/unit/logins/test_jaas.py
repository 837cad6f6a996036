"""Logins out of JAAS files as Storm's and ZooKeeper's pages show them, and what is said of files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormpilot.errors import UsageError
from stormpilot.logins.jaas import NIMBUS_SECTION, NoSectionError, SaslLogin, digest_login

FILE = """
// of Storm's daemons
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="storm" // who
  password='se=cr{e}t; "x"';
};
/* for Nimbus
   and supervisors */
StormClient { org.apache.storm.Some sufficient useTicketCache=false username=bob password=""; Other.Module optional; };
# Kerberos
StormServer {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true
  keyTab="/etc/storm.keytab"
  principal="storm/nimbus-1@EXAMPLE.ORG";
};
Empty {
};
Anonymous { some.Module required; };
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "jaas.conf").write_text(FILE)
    return tmp_path / "jaas.conf"


def test_the_login_of_a_section_is_its_user_name_and_password(file: Path) -> None:
    assert digest_login(file, "Client", "here") == SaslLogin("storm", 'se=cr{e}t; "x"')
    assert digest_login(file, NIMBUS_SECTION, "here") == SaslLogin("bob", "")


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r'"a\\b"', "a\\b"),
        (r'"a\"b"', 'a"b'),
        (r'"a\d\t\101\47\4777"', "ad\tA''77"),
    ],
)
def test_a_backslash_in_quotation_marks_is_read_as_in_java(tmp_path: Path, written: str, password: str) -> None:
    (tmp_path / "x").write_text(f"Client {{ a.Module required username=bob password={written}; }};")
    assert digest_login(tmp_path / "x", "Client", "here") == SaslLogin("bob", password)


def test_a_password_is_never_shown(file: Path) -> None:
    assert "se=cr" not in repr(digest_login(file, "Client", "here"))


def test_kerberos_is_refused_in_one_line(file: Path) -> None:
    with pytest.raises(UsageError) as e:
        digest_login(file, "StormServer", "zookeeper.jaas_file")
    assert "\n" not in str(e.value)
    assert "(zookeeper.jaas_file): section StormServer logs in with Kerberos" in str(e.value)
    assert "SASL digest: username and password" in str(e.value)


@pytest.mark.parametrize(("section", "said"), [("Empty", "no username"), ("Anonymous", "has no username and password")])
def test_a_section_without_a_login_is_named(file: Path, section: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        digest_login(file, section, "here")


def test_a_missing_section_is_told_with_those_that_are_there(file: Path) -> None:
    with pytest.raises(NoSectionError, match=r"no section Server \(it has: Client, StormClient"):
        digest_login(file, "Server", "here")


@pytest.mark.parametrize(
    "text",
    [
        "Client",
        "Client {",
        "Client { a.Module required user",
        "Client { a required u=x; }",
        'Client { a b c="x }',
        "{};",
    ],
)
def test_what_is_no_jaas_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(UsageError, match=r"x \(here\)|x:1|x \(here\):1"):
        digest_login(tmp_path / "x", "Client", "here")


@pytest.mark.parametrize(
    "text",
    [
        'Client {\n a.Module required\n user="storm"\n password "s3cret";\n};',
        "Client {\n a.Module required\n user=storm\n password=s3=cret;\n};",
        'Client {\n a.Module required\n user="storm"\n password="s3"cret";\n};',
    ],
)
def test_what_is_wrong_is_told_by_its_line_and_shows_no_password(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(UsageError, match=r"x \(here\):4: not a JAAS file") as e:
        digest_login(tmp_path / "x", "Client", "here")
    assert "cret" not in str(e.value)
    assert "s3" not in str(e.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere \(here\): cannot read it: No such file"):
        digest_login(tmp_path / "nowhere", "Client", "here")
