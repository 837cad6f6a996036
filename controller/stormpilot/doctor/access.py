"""Checks of the access lists of our znodes: whether those that must may write there, and others may not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stormpilot.doctor.evidence import Access, Evidence
from stormpilot.doctor.finding import Finding, Level
from stormpilot.zookeeper.paths import normal_root

OPEN = (
    "open to everyone who reaches ZooKeeper, as Storm's own znodes are: any worker can write plans, settings and the "
    "load of other topologies"
)
CLOSE = (
    "where owners do not trust each other, set storm.zookeeper.auth.scheme and .payload in every storm.yaml, "
    "zookeeper.auth_file here (or SASL, and zookeeper.jaas_file); and sign plans: stormpilot.plan.key.file on Nimbus, "
    "publish.plan_key_file here"
)
SAME_LOGIN = (
    "set zookeeper.auth_file (digest) or zookeeper.jaas_file (SASL digest) of controller.yaml to the login of Storm's "
    "daemons, and say --config here"
)
KERBEROS = (
    "that is a Kerberos principal, and stormpilot has no Kerberos: give it a login of its own (digest, SASL digest), "
    "and say it to the plug-in: stormpilot.zookeeper.controller.acl, and here: zookeeper.nimbus_acl "
    "(docs/reference/api.md)"
)
NIMBUS_MUST = {"cluster": "w", "topologies": "c", "status": "c", "plans": "r", "settings": "r"}
"""Znodes with what Nimbus must be able to do there."""
ALIKE_BELOW = frozenset(
    ("plans", "plan-history", "proposals", "moves", "rollouts", "requests", "holds", "settings", "topologies", "status")
)
"""Folders of which all that is below belongs to whom they belong; below others workers write or read."""


def access(e: Evidence) -> Iterator[Finding]:
    """Whether we may do what we must with our znodes, and others may not."""
    if not e.access:
        yield Finding("access", Level.skipped, "access lists are not known without ZooKeeper")
        return
    missing = all(a.entries is None and not a.error for a in e.access)
    if missing:
        text = f"{e.root} is not there: neither the plug-in nor a controller has written anything"
        yield Finding("access", Level.fail, text, "install the plug-in (docs/guide/install.md), or give --root")
        return
    secured = _secured(e)
    wrong = False
    for a in e.access:
        if a.error:
            wrong = True
            yield Finding("access", Level.fail, f"{a.path}: {a.error}", SAME_LOGIN)
        elif a.entries is not None and not _ours(a, e):
            wrong = True
            yield Finding(
                "access",
                Level.fail,
                f"{a.path} belongs to {_owners(a)}; {_me(e)} may not change it",
                KERBEROS if any(s == "sasl" and "@" in i for s, i, _ in a.entries) else SAME_LOGIN,
            )
        elif lacked := _lacked_by_nimbus(a, e):
            wrong = True
            yield Finding(
                "access",
                Level.fail,
                f"{a.path} belongs to {_owners(a)}; Storm's login (zookeeper.nimbus_acl) may not {lacked} it",
                f"{_closing(a, e)}; where that is not the login of Storm's daemons, correct zookeeper.nimbus_acl",
            )
        elif _open(a) and (e.ids or secured):
            wrong = True
            yield Finding(
                "access",
                Level.fail,
                f"{a.path} may be changed by anyone who reaches ZooKeeper, though there is a login",
                _closing(a, e),
            )
    if secured and not e.ids:
        wrong = True
        yield Finding(
            "access",
            Level.fail,
            "Storm logs in to ZooKeeper, and this command has no login",
            SAME_LOGIN,
        )
    if not wrong and any(_open(a) for a in e.access):
        yield Finding("access", Level.ok, OPEN, CLOSE)
    elif not wrong:
        yield Finding("access", Level.ok, f"{_me(e)} may read and change what it must")


def _secured(e: Evidence) -> bool:
    """Whether Storm logs in to ZooKeeper."""
    by_sasl = any(s == "sasl" for a in e.access for s, _, _ in a.entries or [])
    return by_sasl or bool(e.nimbus and e.nimbus.conf.get("storm.zookeeper.auth.scheme"))


def _me(e: Evidence) -> str:
    return " and ".join(_name(*one) for one in e.ids) or "this command, without a login,"


def _name(scheme: str, who: str) -> str:
    return who.partition(":")[0] if scheme == "digest" else who


def _owners(a: Access) -> str:
    return ", ".join(sorted({f"{s}:{_name(s, i)}" for s, i, _ in a.entries or []}))


def _ours(a: Access, e: Evidence) -> bool:
    """Whether we may do there what the controller must."""
    return set(a.needs) <= _granted(a, e.ids)


def _granted(a: Access, ids: Iterable[tuple[str, str]]) -> set[str]:
    mine = {("world", "anyone"), *ids} | {(s, i) for s, i, _ in a.entries or [] if s in ("ip",)}
    return {letter for s, i, p in a.entries or [] if (s, i) in mine for letter in p}


def _lacked_by_nimbus(a: Access, e: Evidence) -> str:
    """Right that Storm's login must have there and has not, where the controller has another login; empty: none."""
    must = NIMBUS_MUST.get(a.path.removeprefix(f"{normal_root(e.root)}/v1/"))
    if must is None or not e.nimbus_ids or a.entries is None or must in _granted(a, e.nimbus_ids):
        return ""
    return "read" if must == "r" else "write"


def _closing(a: Access, e: Evidence) -> str:
    """The way to close a znode to others without locking out Nimbus, the controller, or workers."""
    name = a.path.removeprefix(f"{normal_root(e.root)}/v1/")
    if name.startswith("load/"):
        known = e.seen.topologies.get(name.removeprefix("load/"))
        return (
            f"submit {known.name if known else 'the topology'} again: its workers then write with a login of their own"
        )
    deep = "-R " if name in ALIKE_BELOW else ""
    if not e.nimbus_ids:
        return (
            f"in zkCli.sh, as Storm's login (addauth digest user:password): setAcl {deep}{a.path} auth::cdrwa; where "
            "the controller has another login than Storm, set zookeeper.nimbus_acl first, and run this again"
        )
    ours, nimbus = ("cdrwa", "rd") if "w" in a.needs else (a.needs + "d" * (name == "load"), "cdrwa")
    entries = [*(f"{_entry(*i)}:{ours}" for i in e.ids), *(f"{_entry(*i)}:{nimbus}" for i in e.nimbus_ids)]
    return (
        f"in zkCli.sh, after addauth digest user:password: setAcl {deep}{a.path} {','.join(entries)} "
        "(docs/reference/api.md says how to make HASH)"
    )


def _entry(scheme: str, who: str) -> str:
    """Login as `setAcl` takes it; what is hashed is not told."""
    return f"{scheme}:{_name(scheme, who)}" + (":HASH" if scheme == "digest" else "")


def _open(a: Access) -> bool:
    return any((s, i) == ("world", "anyone") and {"w", "d"} & set(p) for s, i, p in a.entries or [])
