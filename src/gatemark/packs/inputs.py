"""What a suite sends to its target: the item's input, or the suite's template filled with it."""

from __future__ import annotations

from collections.abc import Sequence

from gatemark.core.errors import BadInputError
from gatemark.evidence.rows import Row
from gatemark.packs.answers import asked_of
from gatemark.packs.pack import SuiteSpec
from gatemark.targets.port import ANSWER_FIELDS, Call, TargetError
from gatemark.targets.template import Template


def calls_of(suite: SuiteSpec, rows: Sequence[Row]) -> list[Call]:
    """Return the calls of a suite: every item, as often as the suite repeats it."""
    template = None if suite.template is None else _checked(suite)
    return [
        call if template is None else _filled(call, template)
        for row in rows
        for epoch in range(1, suite.repeats + 1)
        for call in (Call(id=row.id, epoch=epoch, input=row.input, sample=asked_of(row)),)
    ]


def _checked(suite: SuiteSpec) -> Template:
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


def _filled(call: Call, template: Template) -> Call:
    try:
        value = template.render(call)
    except TargetError as error:
        raise BadInputError(str(error)) from error
    return Call(id=call.id, epoch=call.epoch, input=value, sample=call.sample)
