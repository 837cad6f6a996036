"""Trial run: whether the installation is set up for one, i.e. everything is measured and nothing is applied."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import Any

from stormpilot.decide.reasons import Reason

NO_REPORTS = "it reports no load, so nothing can be proposed for it"
UNKNOWN = "the controller has not decided about it yet"


@dataclass(frozen=True)
class Obstacle:
    """Problem of a trial run, about `topology` (empty: about the installation), and how to set it."""

    topology: str
    text: str
    fix: str


def obstacles(shown: dict[str, Any]) -> list[Obstacle]:
    """Problems of a trial run, from what `status.gather` found; empty: all is in mode advise and measured."""
    found = []
    if not shown["scheduler"]["seen"]:
        found.append(Obstacle("", shown["scheduler"]["text"], "install the plug-in: docs/guide/install.md"))
    if not shown["controller"]["up"]:
        found.append(Obstacle("", f"controller: {shown['controller']['text']}", "stormpilot run controller.yaml"))
    if "_all" in shown["paused"]:
        found.append(Obstacle("", "everything is paused, so nothing is proposed", "stormpilot resume"))
    for t in shown["topologies"]:
        found += _of_topology(t, "_all" in shown["paused"])
    return found


def _of_topology(t: dict[str, Any], all_paused: bool) -> list[Obstacle]:
    name, mode, source = t["name"], t["mode"], t["modeFrom"] or "unknown"
    advise = f"stormpilot mode advise {quote(name)}"
    if mode == "act":
        return [Obstacle(name, f"mode act (set by {source}): plans are applied, this is no trial", advise)]
    if mode == "off":
        return [Obstacle(name, f"mode off (set by {source}): nothing is proposed", advise)]
    if t["paused"] and not all_paused:
        return [Obstacle(name, "it is paused, so nothing is proposed", f"stormpilot resume {quote(name)}")]
    if t["decision"] is None:
        return [Obstacle(name, UNKNOWN, "wait for the next cycle")]
    if t["decision"]["reason"] == Reason.NOT_INSTRUMENTED:
        return [Obstacle(name, NO_REPORTS, "measure it: docs/guide/instrument.md, docs/guide/hook.md")]
    return []
