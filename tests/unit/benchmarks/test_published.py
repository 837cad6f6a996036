"""Published pages are those that the benchmarks make of the JSON beside them: no figure is without it, or differs."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.accuracy import page as accuracy_page
from benchmarks.accuracy import table as accuracy_table
from benchmarks.control import page as control_page
from benchmarks.demo import repeated
from benchmarks.flow import __main__ as flow_main
from benchmarks.headlines import other_pages
from benchmarks.headlines import page as headlines_page
from benchmarks.history import report as history_report
from benchmarks.hook import __main__ as hook_main
from benchmarks.moves import __main__ as moves_main
from benchmarks.planners import plots, report, unlike_report
from benchmarks.profile import page as profile_page
from benchmarks.react import page as react_page
from benchmarks.react import step
from benchmarks.sizes import page as sizes_page
from benchmarks.startup import __main__ as startup_main
from soak import checker

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "results"


def found(name: str) -> Any:
    """The JSON beside a page."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def parts(name: str) -> dict[str, Any]:
    """Those of its members that are parts of a run."""
    return {part: run for part, run in found(name).items() if isinstance(run, dict)}


def accuracy(_: Path) -> str:
    run = found("accuracy")
    return accuracy_page.text(accuracy_table.from_json(run["rows"]), run)


def control(_: Path) -> str:
    return control_page.page(parts("control"))


def demo(_: Path) -> str:
    return repeated.page(found("demo"))


def flow(_: Path) -> str:
    return flow_main.page(found("flow"))


def headlines(_: Path) -> str:
    return "\n\n".join(headlines_page.sections(found("headlines"))) + "\n"


def history(_: Path) -> str:
    """Sections that people wrote, and the machine of the run, are taken from the page."""
    page = (RESULTS / "history.md").read_text()
    now = history_report._sections(history_report.wrapped(history_report.page(found("history")["rows"])))
    head = history_report._sections(page)[""]
    return history_report.merged(page, "\n\n".join(text if heading else head for heading, text in now.items()))


def hook(_: Path) -> str:
    return hook_main.page(found("hook"))


def moves(_: Path) -> str:
    run = found("moves")
    rate = Namespace(rate=run["parameters"]["rate_tps"])
    return "\n".join(moves_main.published(run["rows"], run["otd"], rate)) + "\n"


def profile(folder: Path) -> str:
    profile_page.publish(found("profile"), folder, folder)
    return (folder / "profile.md").read_text()


def react(_: Path) -> str:
    return react_page.page(parts("react"), [s.name for s in step.SETTINGS])


def sizes(_: Path) -> str:
    return "\n\n".join(sizes_page.sections(found("sizes"))) + "\n"


def soak(folder: Path) -> str:
    checker.publish(found("soak"), folder / "soak")
    return (folder / "soak.md").read_text()


def startup(folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(startup_main, "RESULTS", folder)
        startup_main.publish(found("startup"))
    return (folder / "startup.md").read_text()


MAKERS = (accuracy, control, demo, flow, headlines, history, hook, moves, profile, react, sizes, soak, startup)


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_page_is_what_its_json_makes(make: Callable[[Path], str], tmp_path: Path) -> None:
    assert make(tmp_path) == (RESULTS / f"{make.__name__}.md").read_text()


def test_tables_of_planners_are_what_their_rows_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine, and which parts are of earlier sources, is known only where they were measured."""
    monkeypatch.setattr(plots, "write", lambda *_: [])
    for name in report.PAGES:
        shutil.copy(RESULTS / f"{name}.json", tmp_path)
    store = SimpleNamespace(rows=list, has=lambda _: True, stale=0)
    report.write(SimpleNamespace(store=store, quick=False), tmp_path / "all.json", tmp_path)  # type: ignore[arg-type]
    for name in report.PAGES:
        page, made = (
            [line for line in (folder / f"{name}.md").read_text().splitlines() if line.startswith("|")]
            for folder in (RESULTS, tmp_path)
        )
        assert page and page == made


def test_every_page_with_figures_is_made_anew_here() -> None:
    pages = {p.stem for p in RESULTS.glob("*.json")}
    assert pages == {m.__name__ for m in MAKERS} | set(report.PAGES)
    assert set(unlike_report.PAGES) < set(report.PAGES)


def test_headlines_of_other_pages_are_those_of_their_json() -> None:
    run = found("headlines")
    assert run["others"] == other_pages.lines(RESULTS)
    assert run["missing"] == other_pages.missing(RESULTS)
