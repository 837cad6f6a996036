"""Model and plan files as the offline commands read and write them; `-` is stdin. Errors name file and field."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from stormpilot.errors import UsageError
from stormpilot.messages.limits import LimitError, check_shape
from stormpilot.printable import counted
from stormpilot.user_files import LARGE_BYTES, read_bytes, read_stream, text_bytes

if TYPE_CHECKING:
    from stormpilot.model.compiled import Compiled, Ints
    from stormpilot.model.values import Model, Plan

T = TypeVar("T")
STDIN = Path("-")
DEEPEST = 64
"""Greatest nesting of a file: models and plans need 6."""
ModelOption = Annotated[Path, typer.Option("--model", "-m", help="The model: model.json, or - for stdin.")]


def read_model(path: Path) -> Model:
    """Read `model.json`; `UsageError` names the file, the line or the field, and what was expected."""
    from stormpilot.model.values import Model

    model = _decoded(path, read(path, "model"), Model, "a model (model.json)")
    if model.schema != 1:
        raise UsageError(f"{path}: schema: this version reads 1, the file has {model.schema}")
    return model


def read_plan(path: Path) -> Plan:
    """Read `plan.json`; `UsageError` names the file, the line or the field, and what was expected."""
    from stormpilot.model.values import Plan

    plan = _decoded(path, read(path, "plan"), Plan, "a plan (plan.json)")
    if plan.schema != 1:
        raise UsageError(f"{path}: schema: this version reads 1, the file has {plan.schema}")
    return plan


def compiled_model(path: Path) -> Compiled:
    """Read and compile `model.json`; `UsageError` names the file too."""
    from stormpilot.model.compiled import compile_model

    model = read_model(path)
    try:
        return compile_model(model)
    except UsageError as e:
        raise UsageError(f"{path}: {e}; `stormpilot model validate` lists everything that is wrong") from e


def placement(compiled: Compiled, path: Path) -> tuple[Plan, Compiled, Ints]:
    """A plan file, the model of what it places, and the placement in that.

    The model is without the topologies that a partial plan names as left out. `UsageError` names other executors that
    the plan leaves out or has twice, or of which it has other tasks, slots that are not there, and slots that two
    topologies have.
    """
    plan = read_plan(path)
    compiled = without(compiled, plan.left_out)
    _check_slots(compiled, plan, path)
    _check_executors(compiled, plan, path)
    found = compiled.slots_of(plan)
    if (missing := (found < 0).nonzero()[0]).size:
        raise UsageError(
            f"{path}: {len(missing)} of {counted(compiled.executors, 'executor')} of the model are not in the plan: "
            f"{compiled.describe(missing)}"
        )
    return plan, compiled, found


def _check_slots(compiled: Compiled, plan: Plan, path: Path) -> None:
    slots = compiled.slot_numbers()
    holder: dict[tuple[str, int], str] = {}
    for tp in plan.topologies:
        for w in tp.workers:
            slot = (w.supervisor, w.port)
            if slot not in slots:
                raise UsageError(
                    f"{path}: {tp.id}: the model has no slot {w.supervisor}:{w.port}; is it of this model?"
                )
            if (other := holder.setdefault(slot, tp.id)) != tp.id:
                raise UsageError(f"{path}: {w.supervisor}:{w.port} is given to {other} and to {tp.id}")


def _check_executors(compiled: Compiled, plan: Plan, path: Path) -> None:
    ends = {t.id: {e.start: e.end for e in t.executors} for t in compiled.model.topologies}
    there: set[tuple[str, int]] = set()
    for tp in plan.topologies:
        own = ends.get(tp.id, {})
        for start, end in (e for w in tp.workers for e in w.executors):
            if (tp.id, start) in there:
                raise UsageError(f"{path}: {tp.id}: executor [{start},{end}] is placed twice")
            if own.get(start, end) != end:
                raise UsageError(f"{path}: {tp.id}: executor [{start},{end}] is [{start},{own[start]}] in the model")
            there.add((tp.id, start))


def without(compiled: Compiled, topology_ids: Collection[str]) -> Compiled:
    """The model without these topologies; the same where it has none of them."""
    from stormpilot.model import subset
    from stormpilot.model.compiled import compile_model

    model = compiled.model
    if not any(t.id in topology_ids for t in model.topologies):
        return compiled
    return compile_model(subset.without(model, topology_ids))


def left_out(plan: Plan) -> list[str]:
    """Notes on the topologies that a partial plan leaves out, a line each."""
    return [f"left out: {topology}: {why}" for topology, why in plan.left_out.items()]


def read(path: Path, what: str, most_bytes: int = LARGE_BYTES, *, packed: bool = False) -> bytes:
    """The bytes of a text file or of stdin; `UsageError` for one that cannot be read, has nothing, or more than that.

    `packed`: of a file that is no text, as a jar.
    """
    try:
        if path == STDIN and sys.stdin is None:
            raise OSError(errno.EBADF, "stdin is closed")
        found = read_stream(sys.stdin.buffer, most_bytes) if path == STDIN else read_bytes(path, most_bytes)
        found = found if packed else text_bytes(found, path)
    except OSError as e:
        raise UsageError(f"{path}: cannot read the {what}: {e.strerror}") from e
    if not found or found.isspace():
        raise UsageError(f"{path}: is empty, expected the {what}")
    return found


def write(path: Path, value: Any, what: str) -> None:
    """Write a value as JSON, one item a line where it is nested."""
    write_text(path, msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n", what)


def write_text(path: Path, text: str, what: str) -> None:
    """Write a text; `UsageError` where that cannot be."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{path}: cannot write the {what}: {e.strerror}") from e


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None] | None = None) -> None:
    """The files that are written at the end, by option: `UsageError` at once for one that cannot be written.

    Nor may one be the file of another, or of one of `inputs`: that would be written over.
    """
    there: dict[Path, str] = {}
    for option, path in [*(inputs or {}).items(), *outputs.items()]:
        if path == STDIN and option in outputs:
            raise UsageError(f"{option} -: expected the name of a file")
        if path is None or path == STDIN:
            continue
        if option in outputs:
            _check_writable(path, option)
        file = _file(path)
        if file is not None and (other := there.setdefault(file, option)) != option and option in outputs:
            raise UsageError(f"{option} {path}: is the file of {other} too, expected another one")


def _check_writable(path: Path, option: str) -> None:
    try:
        file = Path(os.path.realpath(path)) if path.is_symlink() else path
        wrong = errno.EISDIR if file.is_dir() else 0 if file.parent.is_dir() else errno.ENOENT
        if not wrong and file.is_symlink():  # links in a circle lead to one of them
            wrong = errno.ELOOP
        if not wrong and not os.access(file if file.exists() else file.parent, os.W_OK):
            wrong = errno.EACCES
    except OSError as e:
        wrong = e.errno or errno.EIO
    if wrong:
        raise UsageError(f"{path}: cannot write this file for {option}: {os.strerror(wrong)}")


def _file(path: Path) -> Path | None:
    """The file that a path leads to; None for a terminal or a pipe, and for what cannot be looked at."""
    try:
        return path.resolve() if path.is_file() or not path.exists() else None
    except (OSError, RuntimeError):  # (of links in a circle)
        return None


def page_files(page: Path, option: str, example: str, inputs: Mapping[str, Path | None] | None = None) -> Path:
    """The file of a page's figures, `.json` beside it: `UsageError` at once where one of the two cannot be written."""
    beside = page.with_suffix(".json") if page.name else page
    if beside == page:
        raise UsageError(f"{option} {page}: expected the name of a page, e.g. {example}; .json is written beside")
    make_folder(page.parent, option)
    check_outputs({option: page, f"{option} (.json)": beside}, inputs)
    return beside


def make_folder(path: Path, option: str) -> None:
    """The folder that an option names, for what is written at the end: `UsageError` at once where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(f"{path}: cannot make this folder for {option}: {e.strerror}") from e
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot write into this folder for {option}: {os.strerror(errno.EACCES)}")


def _decoded(path: Path, data: bytes, kind: type[T], expected: str) -> T:
    try:
        check_shape(data, DEEPEST)
        return msgspec.json.decode(data, type=kind)
    except LimitError as e:
        raise UsageError(f"{path}: {e}") from e
    except msgspec.ValidationError as e:
        text, _, where = str(e).partition(" - at `")
        check_kind(path, data, expected)
        raise UsageError(f"{path}: {where.rstrip('`').removeprefix('$.') or f'expected {expected}'}: {text}") from e
    except msgspec.DecodeError as e:
        raise UsageError(f"{path}:{line_of(data, e)}: {malformed(data, e)}") from e
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}: not UTF-8: {e.reason}") from e


def check_kind(path: Path, data: bytes, expected: str) -> None:
    """`UsageError` for a JSON file that looks like one of another kind."""
    from stormpilot.config.reading import looks_like

    with contextlib.suppress(msgspec.ValidationError):
        looks = looks_like(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
        if looks not in ("", expected):
            raise UsageError(f"{path}: looks like {looks}, expected {expected}")


def malformed(data: bytes, error: msgspec.DecodeError) -> str:
    """The fault of malformed JSON; of one that is torn, where, and what helps."""
    text, _, at = str(error).partition("(byte ")
    if "truncated" in text:
        return f"it breaks off after byte {len(data):,}, in the middle of a value: write or copy the whole file again"
    return f"{text.strip()} (byte {at}" if at else text.strip()


def line_of(data: bytes, error: msgspec.DecodeError) -> int:
    """The line at which malformed JSON breaks off."""
    _, _, where = str(error).partition("(byte ")
    byte = int(where.rstrip(")")) if where else len(data)
    return data.count(b"\n", 0, byte) + 1
