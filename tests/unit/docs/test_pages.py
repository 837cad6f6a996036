"""Pages can be read and followed: links lead somewhere, lines are short, and keys of storm.yaml are explained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
DOCS = REPOSITORY / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *REPOSITORY.glob("*.md"), *REPOSITORY.glob("[!.]*/README.md")])
LINK = re.compile(r"\]\(([^()\s]+)\)")
WIDEST = 120
CODE = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.py|[\w-]+\.yaml|[\w-]+\.yml)?)`|`(\w+\.java)`")


def text(page: Path) -> Iterator[str]:
    """Lines that are no code."""
    fenced = False
    for line in page.read_text("utf-8").splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "<!--")):
            yield line


def links(page: Path) -> set[str]:
    """Targets of the links to files."""
    return {t for t in LINK.findall("\n".join(text(page))) if not re.match(r"[a-z]+:|#", t)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    for target in links(page):
        assert (page.parent / target.partition("#")[0]).exists(), f"{target} is not there"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: str(p.relative_to(DOCS)))
def test_lines_of_prose_are_short(page: Path) -> None:
    assert not [line for line in text(page) if len(line) > WIDEST and not line.startswith("|")]


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: str(p.relative_to(DOCS)))
def test_pages_link_only_to_pages_of_the_site(page: Path) -> None:
    """What lies outside of `docs/` is named, not linked: the site does not have it."""
    for target in links(page):
        assert (page.parent / target.partition("#")[0]).resolve().is_relative_to(DOCS)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_files_that_pages_name_are_there(page: Path) -> None:
    """Below the repository, or below the Python package; a Java class anywhere in the plug-in."""
    roots = (REPOSITORY, REPOSITORY / "controller" / "stormpilot", page.parent)
    for path, java in CODE.findall("\n".join(text(page))):
        if java:
            assert list((REPOSITORY / "storm-plugin").rglob(java)), java
        elif path.endswith((".py", ".yaml", ".yml")) or page.name == "CONTRIBUTING.md":
            assert any((root / path).exists() for root in roots), path


def test_every_page_is_on_the_start_page_or_on_that_of_its_folder() -> None:
    for page in DOCS.rglob("*.md"):
        near = [page.parent / "README.md", DOCS / "README.md"]
        listed = {
            (index.parent / target.partition("#")[0]).resolve()
            for index in near
            if index.exists()
            for target in links(index)
        }
        assert page.name == "README.md" or page.resolve() in listed, f"no index lists {page.relative_to(DOCS)}"


@pytest.mark.parametrize("page", ["install.md", "uninstall.md"])
def test_the_command_that_removes_the_containers_names_every_profile(page: str) -> None:
    services = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text("utf-8"))["services"]
    (line,) = re.findall(r"docker compose (.*) down -v", (DOCS / "guide" / page).read_text("utf-8"))
    assert set(re.findall(r"--profile (\w+)", line)) == {p for s in services.values() for p in s.get("profiles", [])}


def test_every_key_of_the_plug_in_is_explained() -> None:
    (config,) = (REPOSITORY / "storm-plugin").glob("*/src/main/java/**/PilotConfig.java")
    keys = set(re.findall(r'"(stormpilot\.[a-z.]+)"', config.read_text("utf-8")))
    page = (DOCS / "reference" / "storm-yaml.md").read_text("utf-8")
    assert keys and not [key for key in sorted(keys) if f"| `{key}` |" not in page]


def test_every_key_that_the_controller_and_components_read_is_explained() -> None:
    lines = [
        line
        for path in (REPOSITORY / "controller" / "stormpilot").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.match(r"[A-Z_, ]*KEY = ", line)
    ]
    keys = {key for line in lines for key in re.findall(r'(?<!b)"(stormpilot\.[a-z.]+)"', line)}
    page = (DOCS / "reference" / "storm-yaml.md").read_text("utf-8")
    ours = {"stormpilot.trial.tuples"}  # between `stormpilot profile` and its source
    assert "stormpilot.mode" in keys and not [key for key in sorted(keys - ours) if f"`{key}" not in page]


def test_the_picture_of_the_layers_is_the_list_that_imports_are_checked_by() -> None:
    tests = ast.parse((REPOSITORY / "tests" / "unit" / "test_imports.py").read_text("utf-8"))
    (layers,) = (n.value for n in tests.body if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == "LAYERS")
    assert layers is not None
    picture = (REPOSITORY / "README.md").read_text("utf-8").partition("and this picture")[2].split("```")[1]
    drawn = [re.split(r" {3,}", line.strip())[0].split() for line in picture.strip().splitlines()]
    assert drawn[::-1] == [list(layer) for layer in ast.literal_eval(layers)]


RESULTS = sorted(p for p in (DOCS / "results").glob("*.md") if p.name != "README.md")


@pytest.mark.parametrize("page", RESULTS, ids=lambda p: p.name)
def test_figures_of_runs_have_their_json_beside_the_page(page: Path) -> None:
    """A page of results without JSON has no figures of runs, in tables or in prose: nobody could check them."""
    tables = [line for line in text(page) if line.startswith("|")]
    figures = [line for line in tables if re.search(r"\d", re.sub(r"`[^`]*`", "", line))] + measured_words(page)
    assert page.with_suffix(".json").exists() or not figures, f"{page.with_suffix('.json').name} is not there"


@pytest.mark.parametrize("page", RESULTS, ids=lambda p: p.name)
def test_page_of_results_names_the_command_that_writes_it(page: Path) -> None:
    """The same command stands on the index of results."""
    commands = {f"make {name}" for name in re.findall(r"make (bench-[a-z]+|soak|demo)", page.read_text("utf-8"))}
    (row,) = [
        line for line in text(DOCS / "results" / "README.md") if line.startswith("|") and f"({page.name})" in line
    ]
    assert any(command in row for command in commands), f"{page.name} names {sorted(commands)}"


def measured_words(page: Path) -> list[str]:
    """Numbers of rates, of CPU and of missing throughput, outside of code."""
    prose = re.sub(r"`[^`]*`", "", "\n".join(text(page)))
    units = r"tuples/s|sentences/s|CPU\s+seconds|seconds\s+of\s+CPU|microseconds|of\s+a\s+core|seconds\s+in\s+which"
    number = r"(?:(?<![\w.])\d(?:[\d,.]*\d)?|\ba few|\bsome \w+)"
    return re.findall(rf"{number}\s+(?:{units})", prose)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in RESULTS and page.name != "CHANGELOG.md"],
    ids=lambda p: str(p.relative_to(REPOSITORY)),
)
def test_figures_that_were_measured_stand_on_pages_of_results_alone(page: Path) -> None:
    assert not measured_words(page)
