"""Writes the pages of `docs/reference/` that come from code: `configuration.md` and `reasons.md`.

    python -m tools.generate_docs

The sources are the classes of `stormpilot.config`, the codes of `stormpilot.decide.reasons`, and the enum `Reason` of
the scheduler plug-in. A unit test fails while a page is not what this program writes.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stormpilot.cli.config_explain import Setting, about, settings
from stormpilot.decide import reasons

REPOSITORY = Path(__file__).resolve().parents[1]
REFERENCE = REPOSITORY / "docs" / "reference"
HEADER = "<!-- Written by `python -m tools.generate_docs`. Do not edit: change the code, and run it again. -->\n"

PUBLISHED_BECAUSE = {
    "FIRST_PLAN": "The topology was never placed. The plan is made before its first start (`planner.first_plan`).",
    "REPAIR": "Executors have no slot, or the plug-in placed lost executors: the controller makes that the plan.",
    "OVERLOAD": "A node had a load of B(n) or more for longer than X(n), or will have it, and the plan lowers it.",
    "GAIN": "Inter-node traffic falls by R or more, in enough cycles in a row, and that pays for the restarts.",
    "REBALANCED": "A user changed workers or parallelism (`storm rebalance`). The topology is planned once measured.",
    "NEW_SUPERVISOR": "A supervisor that is new or came back has stayed long enough, and the plan uses it.",
    "DRAIN": "Executors run on a drained host and leave it, whatever the gain.",
    "CONSTRAINT_VIOLATED": "Executors run where a pin, an exclusion or a required site forbids it, and leave.",
    "APPROVED": "An operator approved this proposal.",
    "ROLLBACK": "An operator asked for an earlier plan.",
    "ROLLBACK_EFFECT": "The last move made it worse: the placement before it is restored, once.",
    "OTD": "One step of the `otd` loop.",
}
SKIPPED_BECAUSE = {
    "NO_TOPOLOGY": "No topology runs.",
    "CLUSTER_UNKNOWN": "There is no cluster snapshot yet. Check `storm.scheduler` in Nimbus's storm.yaml.",
    "MODE_OFF": "The mode is `off`: Storm's own scheduler places the topology.",
    "EXCLUDED": "`decide.include` and `decide.exclude` leave the topology out.",
    "PAUSED": "An operator paused the topology, or all topologies.",
    "SETTING_UNREADABLE": "A setting of an operator cannot be read. Nothing moves until it can be, or is removed.",
    "MASS_FAILURE": "The part of the supervisors that is gone reached `decide.max_lost_supervisors_ratio`.",
    "BLACKOUT": "A window of `decide.blackouts` is open. Executors without a slot are placed all the same.",
    "OPERATOR_HOLD": "An operator rolled the topology back, or discarded a plan, a while ago.",
    "ROLLOUT_IN_PROGRESS": "A plan of the topology is being carried out by rolling moves.",
    "PLAN_MOVING": "The plug-in is applying the last plan, or has not answered yet.",
    "PLAN_REJECTED": "The plug-in rejected the last plan less than `decide.rejected_retry_s` ago, or it is unreadable.",
    "COOL_DOWN": "The last plan is younger than `decide.cool_down_s` (after a repair: `decide.repair_cool_down_s`).",
    "MOVE_BEING_EVALUATED": "The controller is still measuring the effect of the last move.",
    "BACK_OFF": "The last move, or several in a row, did not help. The wait doubles each time.",
    "WAITING_FOR_REPAIR": "Executors lost their slot less than a minute ago, or run where Storm still hears of them.",
    "NOT_INSTRUMENTED": "Nothing reports the load of the topology.",
    "INSUFFICIENT_METRICS": "Too little of the window is measured. The text names what is missing, and until when.",
    "WAITING_FOR_DRAIN": "Another topology is leaving a drained host. Topologies leave one after the other.",
    "PLANNER_FAILED": "The planner failed, hung, or returned a plan that breaks a constraint.",
    "INFEASIBLE": "No plan was found that holds all constraints. The text names the constraint and the executors.",
    "RESOURCES_INSUFFICIENT": "`otd`: workers have too much load, and no other worker can take it.",
    "NO_BETTER_PLAN": "The best plan that was found is not better than what runs.",
    "GAIN_BELOW_THRESHOLD": "The gain is smaller than R.",
    "GAIN_BELOW_COST": "The plan saves fewer tuples in `decide.payback_s` than its moves delay.",
    "GAIN_NOT_SUSTAINED": "The gain has not been there in enough cycles in a row.",
    "SLOT_OCCUPIED": "An executor that stays occupies a slot that the plan wants.",
    "INSUFFICIENT_CPU": "Beside what stays, a node of the plan has too little CPU.",
    "HEADROOM": "A voluntary plan would fill a node beyond `decide.fill_ratio` of B(n).",
    "MOVE_BUDGET": "The plan would move more within an hour than `budget` allows.",
    "RESTART_NOT_ALLOWED": "The plan needs a restart, and `decide.move_strategy: rolling` forbids it for a gain.",
    "APPROVAL_NEEDED": "The plan waits for `stormpilot approve`.",
    "NOT_PUBLISHED": "Another writer changed the plan meanwhile, or ZooKeeper refused it. The next cycle decides anew.",
}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


def configuration() -> str:
    """Every setting of `controller.yaml`, section by section."""
    parts = [
        HEADER,
        "# Configuration\n",
        "All settings of `controller.yaml`. A setting that you leave out has its default.\n"
        "`stormpilot config check FILE` checks a file; `stormpilot config explain [KEY]` prints this page.\n"
        "The controller reads its file again on `SIGHUP`; settings marked *restart* take effect at its next start.\n",
        "[`controller.example.yaml`](controller.example.yaml) is a complete file.\n",
    ]
    by_section: dict[str, list[Setting]] = {}
    for setting in settings():
        by_section.setdefault(setting.key.partition(".")[0], []).append(setting)
    for section, found in by_section.items():
        parts += [f"## {section}\n", f"{_cell(about(section))}\n"]
        parts.append(_table(("setting", "default", "values", "meaning"), [_row(s) for s in found]))
    return "\n".join(parts)


def _row(setting: Setting) -> tuple[str, ...]:
    default = "required" if setting.required else f"`{_yaml(setting.default)}`"
    values = ", ".join(w for w in (setting.range or setting.type, setting.unit) if w)
    marks = ["*advanced*"] * bool(getattr(setting, "advanced", False)) + ["*restart*"] * setting.needs_restart
    meaning = setting.meaning
    first = meaning.split(" ")[0]
    if not re.search(r"[._]\w", first) and first.rstrip(":,") not in setting.range.split(
        ", "
    ):  # (values and keys stay as they are in files)
        meaning = meaning[:1].upper() + meaning[1:]
    return (
        f"`{setting.key}`",
        default,
        values,
        " ".join([meaning.rstrip(".") + ".", *marks]),
    )


def _yaml(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value).decode().strip('"')


def reason_codes() -> str:
    """The codes of decisions, and those of the scheduler plug-in."""
    parts = [
        HEADER,
        "# Reason codes\n",
        "Every decision has one code: in the log, in `stormpilot status` and `explain`, in the plan history, in\n"
        "metrics and in the webhook. Where a number decided, the decision has the number and its threshold.\n",
        "## Why a plan is published\n",
        _table(("code", "meaning"), _codes(PUBLISHED_BECAUSE)),
        "## Why a topology is left as it is\n",
        "For a topology that runs, the controller checks these conditions in this order. The first one that does not\n"
        "hold gives the code. Codes without a condition concern the whole cluster.\n",
        _table(("code", "must hold", "meaning when it does not"), _codes(SKIPPED_BECAUSE, _questions())),
        "## Answers of the scheduler plug-in\n",
        "The `code` of `status/<topology-id>`, shown by `stormpilot status` and in Storm's own UI. The states are in\n"
        "[the keys and states of the plug-in](storm-yaml.md#states).\n",
        _table(("code", "meaning"), _plugin_codes()),
    ]
    return "\n".join(parts)


def _codes(meanings: Mapping[str, str], questions: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """Rows of the codes that the program has, in the order of the questions where there are some."""
    known = {r.value for r in reasons.Reason}
    unknown = (set(PUBLISHED_BECAUSE) | set(SKIPPED_BECAUSE)) ^ known
    if unknown:
        raise SystemExit(
            f"tools/generate_docs.py: codes without a meaning, or meanings without a code: {sorted(unknown)}"
        )
    order = list(questions or {})
    ordered = sorted(meanings, key=lambda code: order.index(code) if code in order else -1)
    extra = {} if questions is None else questions
    return [(f"`{code}`", *([] if questions is None else [extra.get(code, "")]), meanings[code]) for code in ordered]


def _questions() -> dict[str, str]:
    """The question of each gate by code, in the order in which the controller asks; from one table of the code."""
    rows = _reason_table()
    if rows:
        asked = {str(getattr(r, "code", getattr(r, "reason", ""))): str(r.question) for r in rows}
        return {code: question for code, question in asked.items() if question}
    gates = importlib.import_module("stormpilot.decide.gates").GATES
    return {str(code): question for question, codes in gates for code in codes}


def _reason_table() -> list[Any]:
    """The rows of `decide/reasons.py`, one per code with a `question`, wherever the module keeps them."""
    for value in vars(reasons).values():
        rows: Iterable[Any] = (
            value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
        )
        found = [r for r in rows if (dataclasses.is_dataclass(r) or isinstance(r, tuple)) and hasattr(r, "question")]
        if len(found) > 10:
            return sorted(found, key=lambda r: getattr(r, "order", 0) or 0)
    return []


def _plugin_codes() -> list[tuple[str, str]]:
    """Constants of the enum with the first sentence of their comments."""
    (file,) = (REPOSITORY / "storm-plugin").glob("*/src/main/java/**/Reason.java")
    found = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*([A-Z][A-Z_]+)\b", file.read_text("utf-8"), re.DOTALL)
    return [(f"`{code}`", _javadoc(text)) for text, code in found]


def _javadoc(text: str) -> str:
    return re.sub(r"\{@code ([^}]*)\}", r"`\1`", " ".join(line.strip(" *") for line in text.splitlines()).strip())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(c) for c in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGES: dict[str, Callable[[], str]] = {"configuration.md": configuration, "reasons.md": reason_codes}

if __name__ == "__main__":
    main()
