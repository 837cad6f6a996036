"""The jars for Java 11 call nothing that Java 11 lacks: every reference into the JDK, by javac's list of that release.

The tool that makes the jars rewrites what it knows; what it does not know would fail only when it is called.
"""

from __future__ import annotations

import re
import shutil
import struct
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RELEASE = "B"
"""Java 11 in the names of javac's folders, where each release is a digit of base 36."""
JDK = re.compile(r"javax?/|jdk/|com/sun/|sun/")
CLASS_FILES_OF_11 = 55


class ClassFile(NamedTuple):
    """Names in a class: members are (name, descriptor), references (class, name, descriptor) or (class, "", "")."""

    major: int
    parents: list[str]
    members: set[tuple[str, str]]
    references: set[tuple[str, str, str]]


def parse(data: bytes) -> ClassFile:
    """Read a class file as far as names go (JVMS 4)."""
    at = 8

    def take(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f">{form}", data, at)
        at += struct.calcsize(f">{form}")
        return int(value)

    pool: dict[int, tuple[int, ...] | str] = {}
    index, count = 1, take("H")
    while index < count:
        tag = take("B")
        if tag == 1:
            length = take("H")
            pool[index] = data[at : at + length].decode("utf-8", "surrogatepass")
            at += length
        elif tag in (7, 8, 16, 19, 20):
            pool[index] = (tag, take("H"))
        elif tag in (9, 10, 11, 12, 17, 18):
            pool[index] = (tag, take("H"), take("H"))
        elif tag == 15:
            pool[index] = (tag, take("B"), take("H"))
        else:
            pool[index] = (tag, take("I" if tag in (3, 4) else "Q"))
        index += 2 if tag in (5, 6) else 1

    def text(i: int) -> str:
        found = pool[i]
        return found if isinstance(found, str) else text(found[1])

    def pair(i: int) -> tuple[str, str]:
        found = pool[i]
        return text(found[1]), text(found[2])  # type: ignore[arg-type]

    references = set()
    for entry in pool.values():
        if isinstance(entry, str):
            continue
        if entry[0] in (9, 10, 11):
            references.add((text(entry[1]), *pair(entry[2])))
        elif entry[0] == 7:
            references.add((text(entry[1]), "", ""))
    take("H"), take("H")
    parents = [text(i) for i in (take("H"), *[take("H") for _ in range(take("H"))]) if i]
    members = set()
    for _ in range(2):
        for _ in range(take("H")):
            take("H")
            members.add((text(take("H")), text(take("H"))))
            for _ in range(take("H")):
                take("H")
                length = take("I")
                at += length
    return ClassFile(int.from_bytes(data[6:8], "big"), parents, members, references)


class Java11:
    """Classes of Java 11 as `javac --release 11` knows them."""

    def __init__(self, symbols: zipfile.ZipFile):
        names = (n.split("/", 2) for n in symbols.namelist() if n.endswith(".sig"))
        self.entries = {f[2][: -len(".sig")]: "/".join(f) for f in names if RELEASE in f[0].split("-")[0]}
        self.symbols = symbols

    @cache  # noqa: B019 (one of it lives as long as the test)
    def named(self, name: str) -> ClassFile | None:
        return parse(self.symbols.read(self.entries[name])) if name in self.entries else None

    def has(self, owner: str, name: str, descriptor: str) -> bool:
        found = self.named(owner)
        if found is None:
            return False
        if not name or (name, descriptor) in found.members or owner in SIGNATURE_POLYMORPHIC:
            return True
        parents = found.parents or ([] if owner == "java/lang/Object" else ["java/lang/Object"])
        return any(self.has(p, name, descriptor) for p in [*parents, "java/lang/Object"] if p != owner)


SIGNATURE_POLYMORPHIC = {"java/lang/invoke/VarHandle", "java/lang/invoke/MethodHandle"}
"""Their methods take whatever they are called with."""


@pytest.fixture(scope="module")
def java11() -> Iterator[Java11]:
    javac = shutil.which("javac")
    assert javac is not None
    with zipfile.ZipFile(Path(javac).resolve().parents[1] / "lib" / "ct.sym") as symbols:
        yield Java11(symbols)


def classes(jar: Path) -> Iterator[ClassFile]:
    with zipfile.ZipFile(jar) as opened:
        yield from (parse(opened.read(n)) for n in opened.namelist() if n.endswith(".class") and "module-info" not in n)


def lacking(jar: Path, java11: Java11) -> set[str]:
    """References into the JDK that Java 11 does not have."""
    found = set()
    for owner, name, descriptor in {r for c in classes(jar) for r in c.references}:
        plain = re.sub(r"^\[+L?|;$", "", owner)
        if JDK.match(plain) and not java11.has(
            "java/lang/Object" if owner.startswith("[") and name else plain, name, descriptor
        ):
            found.add(f"{owner}.{name}{descriptor}")
    return found


def jar(module: str, java: str) -> Path:
    """The jar that `make build` made."""
    folder = REPOSITORY / "storm-plugin" / module / "target"
    pattern = "jdk11/*-jdk11.jar" if java == "11" else f"stormpilot-{module}-*[0-9].jar"
    (found,) = folder.glob(pattern)
    return found


@pytest.mark.parametrize("module", ["scheduler", "worker"])
def test_jar_for_java_11_calls_nothing_that_java_11_lacks(module: str, java11: Java11) -> None:
    for_11 = jar(module, "11")
    assert {c.major for c in classes(for_11) if c.major > CLASS_FILES_OF_11} == set()
    assert lacking(for_11, java11) == set()


@pytest.mark.parametrize("module", ["scheduler", "worker"])
def test_what_the_usual_jar_calls_beyond_java_11_is_found(module: str, java11: Java11) -> None:
    """So the test above could fail."""
    assert "java/lang/Record" in {f.split(".")[0] for f in lacking(jar(module, "17"), java11)}
