"""Parts of a release: the pinned Python packages of every part, the libraries inside the jars, and their licences."""

from __future__ import annotations

import importlib.metadata as metadata
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PARTS: Mapping[str, tuple[str, ...]] = {
    "worker": (),
    "controller": ("controller",),
    "history": ("controller", "history"),
}
"""Requirements files, with the extras of pyproject.toml that it needs."""
_POM = {"m": "http://maven.apache.org/POM/4.0.0"}


@dataclass(frozen=True)
class Package:
    """A package that is shipped or installed with us; `pins` is its block of constraints.txt."""

    name: str
    version: str
    licence: str
    pins: str = ""
    purl_kind: str = "pypi"


def pinned(constraints: Path) -> dict[str, str]:
    """Blocks of constraints.txt by canonical name."""
    blocks: dict[str, str] = {}
    name = ""
    for line in constraints.read_text("utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            name = canonicalize_name(re.split(r"[=\s\[;]", line, maxsplit=1)[0])
            blocks[name] = line
        elif line.strip():
            blocks[name] += "\n" + line
    return blocks


def python_packages(extras: tuple[str, ...], constraints: Mapping[str, str]) -> list[Package]:
    """Packages that come with us and these extras, as they are installed here; sorted by name.

    Raises `ValueError` where what is installed is not what constraints.txt pins.
    """
    found: dict[str, Package] = {}
    pending = [(Requirement(f"stormpilot[{','.join(extras)}]" if extras else "stormpilot"), True)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        requirement, ours = pending.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        about = metadata.distribution(requirement.name)
        if not ours:
            pins = constraints.get(key[0], "")
            if pins.split(maxsplit=1)[:1] != [f"{pins.partition('==')[0]}=={about.version}"]:
                raise ValueError(f"{key[0]} {about.version} is installed, constraints.txt pins another: make setup")
            found[key[0]] = Package(key[0], about.version, licence_of(about), pins)
        for text in about.requires or []:
            needed = Requirement(text)
            wanted = [{"extra": extra} for extra in requirement.extras] or [{"extra": ""}]
            if needed.marker is None or any(needed.marker.evaluate(e) for e in [*wanted, {"extra": ""}]):
                pending.append((needed, False))
    return [found[name] for name in sorted(found)]


def licence_of(about: metadata.Distribution) -> str:
    """The licence as the package's own metadata has it: the SPDX expression, else classifiers, else the short text."""
    fields = about.metadata
    if "License-Expression" in fields:
        return fields["License-Expression"]
    classes = [c.rpartition("::")[2].strip() for c in fields.get_all("Classifier") or [] if c.startswith("License ::")]
    named = [c for c in classes if c != "OSI Approved"]
    if named:
        return ", ".join(named)
    return fields["License"].splitlines()[0] if "License" in fields else "not said"


def shaded(module: Path, jar: Path) -> list[Package]:
    """The Java libraries inside a module's jar, from its POMs; `ValueError` if the jar holds other classes."""
    project = ElementTree.parse(module / "pom.xml").getroot()
    parent = ElementTree.parse(module.parent / "pom.xml").getroot()
    properties = {e.tag.rpartition("}")[2]: e.text or "" for e in parent.iterfind("m:properties/*", _POM)}
    packages = []
    for dependency in project.iterfind("m:dependencies/m:dependency", _POM):
        if dependency.findtext("m:scope", "compile", _POM) != "compile":
            continue
        group = dependency.findtext("m:groupId", "", _POM)
        name = dependency.findtext("m:artifactId", "", _POM)
        version = dependency.findtext("m:version", "", _POM)
        version = re.sub(r"\$\{(.+?)\}", lambda m: properties[m[1]], version)
        packages.append(Package(f"{group}/{name}", version, JAVA_LICENCES[f"{group}:{name}"], purl_kind="maven"))
    with zipfile.ZipFile(jar) as opened:
        foreign = {n for n in opened.namelist() if n.endswith(".class") and not n.startswith("io/stormpilot/")}
    if foreign:
        raise ValueError(f"{jar.name} holds classes that nothing accounts for: {sorted(foreign)[:3]}")
    return packages


JAVA_LICENCES = {"com.google.code.gson:gson": "Apache-2.0"}
"""Licences of what may be shaded: another library needs a line here before it is shipped."""
