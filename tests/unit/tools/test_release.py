"""What `make dist` knows of what it ships: pins, licences, and the libraries inside the jars."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tools.release import __main__ as release
from tools.release import audit, parts, sbom

REPOSITORY = Path(__file__).resolve().parents[3]
PINS = parts.pinned(REPOSITORY / "constraints.txt")
SCHEDULER, WORKER = (REPOSITORY / "storm-plugin" / module for module in ("scheduler", "worker"))


def names(*extras: str) -> set[str]:
    return {p.name for p in parts.python_packages(extras, PINS)}


def test_a_worker_host_needs_little_and_no_development_tool_is_shipped() -> None:
    worker, controller, history = names(), names("controller"), names("controller", "history")
    assert {"streamparse", "kazoo", "setuptools"} <= worker < controller < history
    assert not {"numpy", "pyspark", "litestar"} & worker
    assert not {"pytest", "ruff", "mypy", "pip-audit", "cyclonedx-bom"} & history
    assert "pyspark" in history - controller


def test_every_package_is_pinned_with_hashes_and_says_its_licence() -> None:
    for p in parts.python_packages(("controller", "history"), PINS):
        assert f"=={p.version}" in p.pins.splitlines()[0]
        assert "--hash=sha256:" in p.pins
        assert p.licence != "not said", p.name


def test_another_version_than_the_pinned_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kazoo .* constraints.txt pins another"):
        parts.python_packages((), PINS | {"kazoo": "kazoo==0.1 \\\n    --hash=sha256:00"})


def jar(path: Path, *classes: str) -> Path:
    with zipfile.ZipFile(path, "w") as z:
        for name in classes:
            z.writestr(name, b"")
    return path


def test_what_is_shaded_is_read_from_the_pom_and_nothing_else_may_be_in_the_jar(tmp_path: Path) -> None:
    good = jar(tmp_path / "a.jar", "io/stormpilot/PilotScheduler.class", "io/stormpilot/shade/gson/Gson.class")
    (gson,) = parts.shaded(SCHEDULER, good)
    assert (gson.name, gson.licence) == ("com.google.code.gson/gson", "Apache-2.0")
    assert gson.version[0].isdigit()
    with pytest.raises(ValueError, match="org/other"):
        parts.shaded(SCHEDULER, jar(tmp_path / "b.jar", "org/other/X.class"))


def test_the_bill_of_materials_keeps_its_schema_and_names_everything(tmp_path: Path) -> None:
    nimbus = jar(tmp_path / "stormpilot-scheduler-0.1.0.jar", "io/stormpilot/PilotScheduler.class")
    worker = jar(tmp_path / "stormpilot-worker-0.1.0.jar", "io/stormpilot/worker/LoadHook.class")
    packages = parts.python_packages((), PINS)
    jars = {nimbus: parts.shaded(SCHEDULER, nimbus), worker: parts.shaded(WORKER, worker)}
    sbom.write(tmp_path / "sbom.json", "0.1.0", jars, packages)
    bill = json.loads((tmp_path / "sbom.json").read_text())
    purls = {c["purl"] for c in bill["components"]}
    assert any(p.startswith("pkg:maven/com.google.code.gson/gson@") for p in purls)
    assert {f"pkg:pypi/{p.name}@{p.version}" for p in packages} <= purls
    assert {f"pkg:maven/io.stormpilot/stormpilot-{m}@0.1.0" for m in ("scheduler", "worker")} <= purls
    assert all(c.get("licenses") for c in bill["components"])
    needs = {d["ref"]: d.get("dependsOn", []) for d in bill["dependencies"]}
    assert [r for r in needs[worker.name] if "gson" in r]


def test_what_nobody_audited_is_listed_and_said_to_be_unaudited() -> None:
    packages = parts.python_packages((), PINS)
    text = audit.report(None, packages, [])
    assert f"no vulnerability in 0 of {len(packages)} Python packages" in text
    assert "Not audited, because nobody asked" in text
    assert all(f"  {p.name} {p.version}\n" in text for p in packages)


def test_the_version_is_the_same_everywhere() -> None:
    compose = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    import stormpilot

    ours = {s["image"] for s in compose["services"].values() if s["image"].startswith("stormpilot/")}
    assert {i.rpartition(":")[2] for i in ours} == {stormpilot.__version__}
    assert f"stormpilot-{stormpilot.__version__}-" in (REPOSITORY / "docs" / "guide" / "install.md").read_text()


def test_the_install_page_lists_every_file_that_a_release_takes_from_the_repository() -> None:
    files = (REPOSITORY / "docs" / "guide" / "install.md").read_text().partition("## Files")[2].partition("\n## ")[0]
    assert [name for name in release.EXAMPLES.values() if f"`{name}`" not in files] == []


def test_nothing_in_the_compose_file_listens_beyond_this_machine_or_floats() -> None:
    services = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        assert all(p.startswith("127.0.0.1:") for p in service.get("ports", [])), name
        assert not service["image"].endswith(":latest"), name
        assert ":" in service["image"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_the_example_unit_gives_up_root_and_what_it_does_not_need() -> None:
    unit = (REPOSITORY / "deploy" / "systemd" / "stormpilot.service").read_text().splitlines()
    for line in ("User=stormpilot", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert line in unit
    assert "OOMPolicy=continue" in unit, "a planner that is ended for want of memory does not end the controller"


def test_folders_of_the_example_unit_have_the_modes_that_the_install_page_gives_them() -> None:
    """systemd warns at every start about a configuration folder of another mode, and changes that of the others."""
    unit = (REPOSITORY / "deploy" / "systemd" / "stormpilot.service").read_text()
    page = (REPOSITORY / "docs" / "guide" / "install.md").read_text()
    for kind, folder in (("State", "/var/lib"), ("Cache", "/var/cache"), ("Configuration", "/etc")):
        installed = set(re.findall(rf"^\s*install -d -m (\d+) .*{folder}/stormpilot\b", page, re.MULTILINE))
        assert installed == set(re.findall(rf"^{kind}DirectoryMode=(\d+)$", unit, re.MULTILINE)), kind


def test_systemd_accepts_the_example_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    text = (REPOSITORY / "deploy" / "systemd" / "stormpilot.service").read_text()
    unit = tmp_path / "stormpilot.service"
    here = str(Path(sys.executable).with_name("stormpilot"))
    unit.write_text(text.replace("/opt/stormpilot/bin/stormpilot", here))
    for arguments in (("verify",), ("security", "--offline=true", "--threshold=15", "--no-pager")):
        done = subprocess.run(
            ["systemd-analyze", *arguments, unit], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout[-500:] + done.stderr
        assert "stormpilot.service:" not in done.stderr, done.stderr
