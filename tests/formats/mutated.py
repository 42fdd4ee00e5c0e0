"""A copy of the source in which sealed structs were changed, as a later build would change them."""

from __future__ import annotations

import ast
import inspect
import subprocess
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from tests.forked import Forked
from tests.package_copy import SOURCE, copy_package

from gatemark.core.result import Result
from gatemark.evidence.exam_inputs import ExamInputs
from gatemark.evidence.rows import Row
from gatemark.ledger import event_kinds as governance
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import event_kinds
from gatemark.packs.pack import Pack
from gatemark.release.attribution.decision import PlannedDecision
from gatemark.release.attribution.nouns import Attribution
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.signal import Episode
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.release.review.labelling import LabelItem, LabelPlan
from gatemark.release.review.plan import ReviewPair, ReviewPlan

ADDED = '    later_note: "str | None" = None\n'
ADDED_UNSET = '    import msgspec\n    later_note: "str | msgspec.UnsetType" = msgspec.UNSET\n'
Struct = type[msgspec.Struct]


def sealed_structs() -> list[Struct]:
    """Every struct that stands in a sealed document or in the payload of an event."""
    payloads = [
        value
        for value in vars(governance).values()
        if inspect.isclass(value)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == governance.__name__
    ]
    payloads += [kind.payload for kind in event_kinds().values() if kind.payload is not None]
    roots: list[Any] = [
        *(Result, Attribution, PlannedDecision, Pack, Row, ExamInputs, Event, Episode, DriftPolicy),
        *(ReleasePolicy, ReviewPlan, LabelPlan, LabelItem, ReviewPair, *payloads),
    ]
    found: dict[Struct, None] = {}
    while roots:
        kind = roots.pop()
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
            if kind not in found and kind is not msgspec.Struct:
                found[kind] = None
                roots.extend(typing.get_type_hints(kind).values())
        else:
            roots.extend(typing.get_args(kind))
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


def add_field(text: str, name: str) -> str:
    """The text of a module in which a class has one more field, its last; None if not used."""
    return _insert_field(text, name, ADDED)


def add_unset_field(text: str, name: str) -> str:
    """As ``add_field``, in the way of a later release: a field that is not used is not written."""
    return _insert_field(text, name, ADDED_UNSET)


def _insert_field(text: str, name: str, field: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(max(one.end_lineno or 0 for one in _fields(text, name)), field)
    return "".join(lines)


def change_defaults(text: str, name: str) -> str:
    """The text of a module in which every plain default of a class is another one."""
    lines = text.splitlines(keepends=True)
    for field in reversed(_fields(text, name)):
        value = field.value
        if isinstance(value, ast.Constant) and (other := _other(value.value)) is not None:
            row = value.lineno - 1
            start, end = value.col_offset, value.end_col_offset
            lines[row] = f"{lines[row][:start]}{other}{lines[row][end:]}"
    return "".join(lines)


def _other(value: object) -> str | None:
    """Another default of the same type. Texts stay: most are words out of a fixed list."""
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1)
    # Every bound on a rate still holds for it.
    return repr(value * 0.75) if isinstance(value, float) else None


def _fields(text: str, name: str) -> list[ast.AnnAssign]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [part for part in node.body if isinstance(part, ast.AnnAssign)]
    raise AssertionError(f"no class {name}")


def mutated_copy(
    folder: Path, structs: Iterable[Struct], change: Callable[[str, str], str]
) -> Path:
    """A source folder whose package has these structs changed."""
    package = copy_package(folder)
    for struct in structs:
        relative = Path(inspect.getfile(struct)).relative_to(SOURCE)
        path = package / relative
        text = path.read_text(encoding="utf-8")
        if _fields(text, struct.__name__):
            path.write_text(change(text, struct.__name__), encoding="utf-8")
    return folder


def run(
    source: Path, *arguments: str, code: str | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command of a build, or Python code with its package."""
    changed = None if source == SOURCE.parent else source
    done = Forked(arguments, code=code, source=changed, folder=cwd).finish()
    texts = (done.stdout.decode(), done.stderr.decode())
    return subprocess.CompletedProcess(arguments, done.returncode, *texts)
