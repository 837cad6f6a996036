"""The dashboard's JSON is what its program writes, and no panel hides another."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import yaml

from tools import dashboard

DEPLOY = dashboard.OUT.parents[1]
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "stormpilot.json").read_text())


def test_the_json_is_what_the_program_writes() -> None:
    assert dashboard.OUT.read_text() == dashboard.build(), "run: python -m tools.dashboard"


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = Counter(p["id"] for p in BOARD["panels"])
    assert max(ids.values()) == 1
    cells: Counter[tuple[int, int]] = Counter()
    for p in BOARD["panels"]:
        g = p["gridPos"]
        assert g["x"] + g["w"] <= 24
        cells.update((x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"]))
    assert max(cells.values()) == 1


def test_every_panel_asks_something_and_says_what_it_shows() -> None:
    for p in BOARD["panels"]:
        if p["type"] == "row":
            continue
        assert p["targets"], p["title"]
        assert p["description"], p["title"]


def test_the_data_source_is_the_provisioned_kind() -> None:
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    (variable,) = [v for v in BOARD["templating"]["list"] if v["type"] == "datasource"]
    assert variable["query"] == source["type"] == "prometheus"
    assert {p["datasource"]["uid"] for p in BOARD["panels"] if "datasource" in p} <= {"${datasource}"}


def test_every_alert_has_its_paragraph_in_the_manual() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    headings = {
        line.removeprefix("### ").strip().lower()
        for line in (DEPLOY.parent / "docs" / "guide" / "runbook.md").read_text().splitlines()
        if line.startswith("### ")
    }
    for rule in rules:
        path, _, where = rule["annotations"]["runbook"].partition(" ")
        assert where == "(in the repository of stormpilot and in the compose archive of its release)"
        page, _, anchor = path.partition("#")
        assert page == "docs/guide/runbook.md"
        assert anchor == rule["alert"].lower()
        assert anchor in headings, f"docs/guide/runbook.md says nothing of {rule['alert']}"
