"""What the source distribution of the Python package holds."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.sdist import SdistBuilder

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {"controller", "storm-plugin/local-storm"}


def test_the_source_distribution_holds_the_package_and_what_it_is_built_from_alone() -> None:
    """A pattern without a slash in front matches at any depth: README.md of every folder was in it."""
    files = {f.relative_path for f in SdistBuilder(str(ROOT)).recurse_included_files()}
    rest = {f for f in files if not any(f.startswith(f"{folder}/") for folder in FOLDERS)}
    assert rest == {"README.md", "LICENSE"}
    assert {"controller/stormpilot/__init__.py", "controller/stormpilot/api/pages/index.html"} <= files
