"""Answers that people graded, with which a judge is compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.rows import Snapshot, read_dataset
from gatemark.scorers.judge.prompt import JudgeTask
from gatemark.scorers.scorer import Scorable

ONCE = 1


class LabelledSet(msgspec.Struct, frozen=True):
    """Answers that people graded: what the judge sees, and the people's labels."""

    reference: str
    items: dict[tuple[str, int], Scorable]
    labels: dict[str, str]


Labels = Callable[[str], Snapshot]
"""Returns what people labelled, by the name of the judge."""


def read_labels(path: Path, name: str, task: JudgeTask) -> LabelledSet:
    """Read the labelled answers of a file."""
    return make_labelled_set(read_dataset(str(path), name), task)


def make_labelled_set(snapshot: Snapshot, task: JudgeTask) -> LabelledSet:
    """Return rows as labelled answers: each with an ``output`` and a ``label`` of the task."""
    name = snapshot.name
    items = {
        row.id: Scorable(row.id, row.input, row.target, row.extra.get("output"))
        for row in snapshot.rows
    }
    labels = {row.id: row.extra.get("label") for row in snapshot.rows}
    problems = [
        f"{row.id!r} {problem}"
        for row in snapshot.rows
        if (problem := task.problem(items[row.id]) or _find_label_problem(labels[row.id], task))
    ]
    if problems:
        raise BadInputError(tuple(f"{name}: item {problem}" for problem in problems[:20]))
    return LabelledSet(
        reference=snapshot.reference,
        items={(row_id, ONCE): item for row_id, item in items.items()},
        labels={row_id: str(label) for row_id, label in labels.items()},
    )


def _find_label_problem(label: object, task: JudgeTask) -> str | None:
    known = sorted(task.labels)
    return None if label in known else f"has label {label!r}, the rubric has {', '.join(known)}"
