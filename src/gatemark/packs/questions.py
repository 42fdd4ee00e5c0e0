"""The questions of a suite: its rows as they are asked, and what a target may see of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.rows import Row
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.targets.port import ANSWER_FIELDS, Call, TargetError
from gatemark.targets.template import Template

REPLAY = "replay"
_SAMPLE_SCHEMA = "gatemark.sample/1"
_ANSWERED = (
    "output",
    "scores",
    "error",
    "latency_ms",
    "cost",
    "tokens",
    "answered_at",
    "origin",
    "recorded",
)
"""Fields of a sample that describe an earlier answer, not the item."""


def make_asked_rows(kind: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows as a suite asks them; in a replay, production's answer is the target.

    A row of a replay that already has a target keeps it.
    """
    if kind != REPLAY:
        return tuple(rows)
    return tuple(
        msgspec.structs.replace(row, target=row.extra.get("output"))
        if row.target is None and row.extra.get("schema") == _SAMPLE_SCHEMA
        else row
        for row in rows
    )


def make_sample(row: Row) -> dict[str, object]:
    """Return the row as it was written, for scorers that read more than its input.

    The candidate states its own confidence, so the confidence in the data set is removed, and so
    are fields of an imported sample about an earlier answer.
    """
    hidden = _ANSWERED if row.extra.get("schema") == _SAMPLE_SCHEMA else ("recorded",)
    extra = {name: value for name, value in row.extra.items() if name not in hidden}
    sample: dict[str, object] = {**extra, "id": row.id, "input": row.input, "tags": row.tags}
    for name in ("target", "cluster"):
        if (value := getattr(row, name)) is not None:
            sample[name] = value
    return sample


_NAMES: Final = frozenset(("id", "epoch", "input", "tags", "cluster", "confidence", "schema"))
"""Fields of a sample that are its input, or say nothing about what is asked."""


def list_fields_beside(row: Row) -> dict[str, object]:
    """Return the fields that go with a row's input, such as a document or what is right."""
    return {name: value for name, value in make_sample(row).items() if name not in _NAMES}


def make_asked_sample(row: Row) -> dict[str, Any]:
    """Return the row as targets see it: without anything that reveals the right answer."""
    return {name: value for name, value in make_sample(row).items() if name not in ANSWER_FIELDS}


def make_calls(suite: SuiteSpec, rows: Sequence[Row]) -> list[Call]:
    """Return the calls of a suite: every item, as often as the suite repeats it."""
    template = None if suite.template is None else _check_template(suite)
    return [
        call if template is None else _fill_template(call, template)
        for row in rows
        for epoch in range(1, suite.repeats + 1)
        for call in (Call(id=row.id, epoch=epoch, input=row.input, sample=make_asked_sample(row)),)
    ]


def _check_template(suite: SuiteSpec) -> Template:
    template = Template(suite.template, name=f"suite {suite.id}: template")
    for path in template.paths:
        if path[0] == "variables":
            raise BadInputError(f"{template.name} has no variables; use input or sample.KEY")
        if path[0] == "sample" and (len(path) == 1 or path[1] in ANSWER_FIELDS):
            raise BadInputError(
                f"{template.name} must not use {'.'.join(path)}: it would tell the target what is "
                "right; use input, id, epoch or sample.KEY of another key"
            )
    if not any(path[0] in ("input", "sample") for path in template.paths):
        raise BadInputError(f"{template.name} never uses the item; add {{{{input}}}}")
    return template


def _fill_template(call: Call, template: Template) -> Call:
    try:
        value = template.render(call)
    except TargetError as error:
        raise BadInputError(str(error)) from error
    return Call(id=call.id, epoch=call.epoch, input=value, sample=call.sample)
