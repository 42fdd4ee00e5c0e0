"""``gatemark import --to decisions``: convert traces to ``gatemark.decision/1``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.strict_json import depth
from gatemark.release.attribution.decision import PlannedDecision
from gatemark.release.attribution.decision_files import MAX_DEPTH, find_problems
from gatemark.release.attribution.from_traces import make_decisions
from gatemark.samples.gathering import shorten_value
from gatemark.samples.import_logs import check_output
from gatemark.samples.importer import ReadOptions, detect, find_tool_logs, importers, open_foreign
from gatemark.samples.importers import chat_log, langfuse, otlp
from gatemark.samples.prepare import remove_private
from gatemark.samples.read_samples import AUTO

READERS: Final = {
    otlp.NAME: otlp.read_spans,
    langfuse.NAME: langfuse.read_spans,
    chat_log.NAME: chat_log.read_spans,
}
LARGEST_EXACT: Final = 2**53
MAX_CONTENT_DEPTH: Final = MAX_DEPTH - 4
"""Contents are nested inside a step inside the steps of a decision."""


class DecisionsImported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of converting some traces; ``output`` is null if nothing was written."""

    decisions: int
    refused: int
    redacted: int
    output: str | None
    refusals: tuple[str, ...]


def import_decisions(
    paths: Sequence[str],
    *,
    tool: str = AUTO,
    output: str | None = None,
    redact: bool = False,
    exclude_bad: bool = False,
) -> DecisionsImported:
    """Convert traces to decisions; write nothing if one cannot be read.

    ``exclude_bad`` goes on without such traces. ``redact`` replaces texts that show personal data
    or secrets before anything is written.
    """
    check_output(paths, output)
    named = [file for path in paths for file in find_tool_logs(Path(path), tool)]
    files = [open_foreign(file, ReadOptions().limits) for file in named]
    name = detect(files[0], importers()).name if tool == AUTO and files else tool
    if name not in READERS:
        raise UsageError(
            f"only traces and chat logs become decisions ({', '.join(READERS)}), not {name} logs"
        )
    found = make_decisions(files, READERS[name])
    refusals = [f"{refusal.place}: {refusal.reason}" for refusal in found.refused]
    kept: list[PlannedDecision] = []
    redacted = 0
    for made in found.decisions:
        problems = _find_depth_problems(made)
        cleaned = made if problems else _replace_contents(made, _write_large_integers_as_text)
        if redact and not problems:
            exact = cleaned
            cleaned = _replace_contents(exact, remove_private)
            redacted += cleaned != exact
        problems = problems or _find_problems(cleaned)
        if problems:
            trace = shorten_value(made.id)
            refusals.extend(f"{paths[0]}: trace {trace}: {problem}" for problem in problems)
        else:
            kept.append(cleaned)
    if not kept and not refusals:
        raise BadInputError(f"{paths[0]}: contains no traces and no conversations")
    writes = output is not None and bool(kept) and (exclude_bad or not refusals)
    if writes and output is not None:
        write_whole(Path(output), [msgspec.json.encode(one) + b"\n" for one in kept])
    return DecisionsImported(
        decisions=len(kept),
        refused=len(found.refused) + len(found.decisions) - len(kept),
        redacted=redacted,
        output=output if writes else None,
        refusals=tuple(refusals),
    )


def _find_problems(decision: PlannedDecision) -> list[str]:
    """Return why a converted decision could not be read back."""
    try:
        again = msgspec.json.decode(msgspec.json.encode(decision), type=PlannedDecision)
    except msgspec.DecodeError as error:
        return [str(error)]
    return find_problems(again)


def _find_depth_problems(decision: PlannedDecision) -> list[str]:
    contents = (decision.input, decision.output, *(step.output for step in decision.steps))
    deepest = max(depth(content) for content in contents)
    too_deep = deepest > MAX_CONTENT_DEPTH
    return [f"a text holds JSON that is nested {deepest} levels deep"] if too_deep else []


def _replace_contents(decision: PlannedDecision, change: Callable[[Any], Any]) -> PlannedDecision:
    """Return the decision with all content of people, models and tools replaced."""
    steps = tuple(
        msgspec.structs.replace(
            step,
            output=step.output if step.output is UNSET else change(step.output),
            error=step.error if step.error is UNSET else change(step.error),
        )
        for step in decision.steps
    )
    return msgspec.structs.replace(
        decision, input=change(decision.input), output=change(decision.output), steps=steps
    )


def _write_large_integers_as_text(value: object) -> object:
    """Return the value with integers that would lose digits written as texts."""
    if isinstance(value, dict):
        return {key: _write_large_integers_as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_write_large_integers_as_text(item) for item in value]
    return str(value) if isinstance(value, int) and abs(value) > LARGEST_EXACT else value
