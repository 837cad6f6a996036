"""The software bill of materials: CycloneDX 1.6 JSON, checked against its schema."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from tools.release.parts import Package


def write(out: Path, version: str, jars: Mapping[Path, list[Package]], python: list[Package]) -> None:
    """Write the bill: our jars with the libraries inside each, and the Python packages; `ValueError` if it is not what
    the schema wants.
    """
    from cyclonedx.validation.json import JsonStrictValidator  # it compiles grammars, for seconds

    licences = LicenseFactory()
    bom = Bom()
    us = Component(
        name="stormpilot",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="stormpilot",
        purl=PackageURL("pypi", None, "stormpilot", version),
        licenses=[licences.make_from_string("Apache-2.0")],
    )
    ours = {jar: _jar(jar, version, licences) for jar in jars}
    bom.metadata.component = us
    components = {p: _component(p, licences) for p in [*python, *(p for inside in jars.values() for p in inside)]}
    bom.components.update([*ours.values(), *components.values()])
    bom.register_dependency(us, [*ours.values(), *(components[p] for p in python)])
    for jar, inside in jars.items():
        bom.register_dependency(ours[jar], [components[p] for p in inside])
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"{out.name}: {wrong}")
    out.write_text(text + "\n")


def _jar(jar: Path, version: str, licences: LicenseFactory) -> Component:
    artifact, _, classifier = jar.stem.partition(f"-{version}")
    qualifiers = {"classifier": classifier.lstrip("-")} if classifier else None
    return Component(
        name=jar.name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=jar.name,
        purl=PackageURL("maven", "io.stormpilot", artifact, version, qualifiers),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(jar.read_bytes()).hexdigest())],
        licenses=[licences.make_from_string("Apache-2.0")],
    )


def _component(p: Package, licences: LicenseFactory) -> Component:
    namespace, _, name = p.name.rpartition("/")
    return Component(
        name=name,
        group=namespace or None,
        version=p.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{p.purl_kind}:{p.name}@{p.version}",
        purl=PackageURL(p.purl_kind, namespace or None, name, p.version),
        licenses=[licences.make_from_string(p.licence)],
    )
