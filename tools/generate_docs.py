"""Writes the pages of `docs/reference/` that come from code: `configuration.md`, `reasons.md`, `storm-keys.md`.

    python -m tools.generate_docs

The sources are the classes of `stormpilot.config`, the codes of `stormpilot.decide.reasons`, the enum `Reason` of the
scheduler plug-in, and the table in `stormpilot.observe.storm_keys`. A unit test fails while a page is not what this
program writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stormpilot.cli.config_explain import Setting, about, settings
from stormpilot.decide import reasons
from stormpilot.decide.remedies import REMEDIES
from stormpilot.observe import storm_keys as keys

REPOSITORY = Path(__file__).resolve().parents[1]
REFERENCE = REPOSITORY / "docs" / "reference"
HEADER = "<!-- Written by `python -m tools.generate_docs`. Do not edit: change the code, and run it again. -->\n"


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
        "[`controller.example.yaml`](controller.example.yaml) has all that are not advanced. B(n), X(n) and R name\n"
        "three of them ([glossary](glossary.md#planning)); upper-case words are [reason codes](reasons.md).\n",
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
        "metrics and in the webhook. Where a number decided, the decision has the number and its threshold.\n"
        "`stormpilot explain TOPOLOGY` names what you can do about the last decision.\n",
        "## Why a plan is published\n",
        _table(("code", "meaning"), [(code, meaning) for code, _, meaning in _codes("trigger")]),
        "## Why a topology is left as it is\n",
        "For a topology that runs, the controller checks these conditions in this order. The first one that does not\n"
        "hold gives the code. Codes without a condition concern the whole cluster.\n",
        _table(
            ("code", "must hold", "meaning when it does not", "what you can do"),
            [(*row, _sentence(REMEDIES[row[0].strip("`")])) for row in _codes("cluster", "gate")],
        ),
        "## Why another size is proposed\n",
        "Beside the decision about the placement, for topologies that `sizing.files` names\n"
        "([growing and shrinking](../concepts/sizing.md#growing-and-shrinking)).\n",
        _table(("code", "meaning"), [(code, meaning) for code, _, meaning in _codes("size")]),
        "## Answers of the scheduler plug-in\n",
        "The `code` of `status/<topology-id>`, shown by `stormpilot status` and in Storm's own UI. The states are in\n"
        "[the keys and states of the plug-in](storm-yaml.md#states).\n",
        _table(("code", "meaning"), _plugin_codes()),
    ]
    return "\n".join(parts)


def _codes(*kinds: reasons.Kind) -> list[tuple[str, ...]]:
    """Code, condition and meaning of the reasons of these kinds, in the order of the table."""
    rows = [row for row in reasons.reasons_table() if row.kind in kinds]
    return [(f"`{row.code}`", row.question, _sentence(row.meaning)) for row in rows]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _plugin_codes() -> list[tuple[str, str]]:
    """Constants of the enum with the first sentence of their comments."""
    (file,) = (REPOSITORY / "storm-plugin").glob("*/src/main/java/**/Reason.java")
    found = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*([A-Z][A-Z_]+)\b", file.read_text("utf-8"), re.DOTALL)
    return [(f"`{code}`", _javadoc(text)) for text, code in found]


def _javadoc(text: str) -> str:
    return re.sub(r"\{@code ([^}]*)\}", r"`\1`", " ".join(line.strip(" *") for line in text.splitlines()).strip())


def storm_keys() -> str:
    """Every key of Storm's schedulers, by what plans do with it."""
    parts = [
        HEADER,
        "# Storm's scheduling keys\n",
        "Every key of Storm that says where executors may run, and what stormpilot does with it. Nothing that you set\n"
        "is silently lost: a plan keeps a key, or the controller leaves alone what uses it, and Storm's own scheduler\n"
        "([`stormpilot.fallback.scheduler`](storm-yaml.md)) goes on to place it. The reason code is then\n"
        "[`UNSUPPORTED_SETTING`](reasons.md); `stormpilot explain` and `stormpilot doctor` name the key. Where you\n"
        "know that a key does not matter, list it in [`decide.ignored_storm_keys`](configuration.md#decide).\n",
        "Memory counts where somebody declared it, in a component, in a topology or in storm.yaml, or where the\n"
        "fallback is the ResourceAwareScheduler. Otherwise the memory that workers report counts (resident set of the\n"
        "JVM, in equal parts for its tasks, and of the Python process of a task), unless\n"
        "[`load.capacity`](configuration.md#load) is `declared`; Storm's default of 128 MB limits nothing.\n",
    ]
    for treatment, heading in keys.TREATMENTS.items():
        rows = [k for k in keys.STORM_KEYS if k.treatment == treatment]
        tested = any(k.test for k in rows)
        parts.append(f"## {heading[0].upper()}{heading[1:]}\n")
        parts.append(
            _table(
                ("key", "how", "test") if tested else ("key", "how"),
                [(f"`{k.key}`", k.how, f"`{k.test}`") if tested else (f"`{k.key}`", k.how) for k in rows],
            )
        )
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(c) for c in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "reasons.md": reason_codes,
    "storm-keys.md": storm_keys,
}

if __name__ == "__main__":
    main()
