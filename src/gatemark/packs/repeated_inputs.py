"""Count every input of a suite once: items that ask the same are repeats of one item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from gatemark.evidence.inputs import digest_inputs, group_inputs, join_clusters
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer, ItemKey
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.questions import list_fields_beside, make_asked_rows
from gatemark.packs.run import AnsweredRun

_FIRST_EPOCH: Final = 1


class _Repeats(NamedTuple):
    """The first item of every item's input, which copy it is, and the cluster of the input."""

    first: Mapping[str, str]
    place: Mapping[str, int]
    cluster: Mapping[str, str]
    epochs: int

    def rename(self, key: ItemKey) -> ItemKey:
        """Return an item and epoch as an epoch of the first item of the input."""
        name, epoch = key
        if name not in self.first:
            return key
        return self.first[name], self.place[name] * self.epochs + epoch


def count_inputs_once(answered: AnsweredRun) -> AnsweredRun:
    """Return the run with copies of an item as further epochs of it, in joined clusters.

    Otherwise an item could be copied until it decides: a copy says nothing that the first did not.
    """
    suites = [suite for suite in answered.run.pack.suites if suite.id in answered.candidate]
    snapshots = answered.run.opened.snapshots
    rows = {
        suite.id: make_asked_rows(suite.kind, snapshots[suite.id].rows)
        for suite in suites
        if suite.id in snapshots
    }
    firsts = {suite: find_first_items(own) for suite, own in rows.items()}
    held: dict[tuple[str, str], dict[str, None]] = {}
    for suite, own in rows.items():
        for row in own:
            if row.cluster:
                held.setdefault((suite, firsts[suite][row.id]), {})[row.cluster] = None
    joined = join_clusters(held.values())
    if all(name == first for own in firsts.values() for name, first in own.items()) and all(
        name == first for name, first in joined.items()
    ):
        return answered
    clusters = {key: joined[next(iter(names))] for key, names in held.items()}
    repeats = {
        suite: _Repeats(
            first,
            _number_copies(first),
            {name: clusters[suite, own] for name, own in first.items() if (suite, own) in clusters},
            _count_epochs(suite, answered.arms),
        )
        for suite, first in firsts.items()
    }
    return msgspec.structs.replace(
        answered, arms={name: _rename_arm(arm, repeats) for name, arm in answered.arms.items()}
    )


def find_first_items(rows: Sequence[Row]) -> dict[str, str]:
    """Return the first item with the same input, and what goes with it, for every item."""
    contents = digest_inputs([(row.input, list_fields_beside(row)) for row in rows])
    return group_inputs(zip([row.id for row in rows], contents, strict=True))


def _number_copies(first: Mapping[str, str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    places = {}
    for name, own in first.items():
        places[name] = counts.get(own, 0)
        counts[own] = places[name] + 1
    return places


def _count_epochs(suite: str, arms: Mapping[str, ArmAnswers]) -> int:
    epochs = (answer.epoch for arm in arms.values() for answer in arm.answers.get(suite, ()))
    return max(epochs, default=_FIRST_EPOCH)


def _rename_arm(arm: ArmAnswers, repeats: Mapping[str, _Repeats]) -> ArmAnswers:
    return msgspec.structs.replace(
        arm,
        answers={
            suite: _rename_answers(answers, repeats[suite]) if suite in repeats else answers
            for suite, answers in arm.answers.items()
        },
        graded={
            suite: msgspec.structs.replace(
                graded,
                replies={repeats[suite].rename(key): own for key, own in graded.replies.items()},
            )
            if suite in repeats
            else graded
            for suite, graded in arm.graded.items()
        },
    )


def _rename_answers(answers: Sequence[Answer], repeats: _Repeats) -> tuple[Answer, ...]:
    named = [
        (repeats.rename((answer.id, answer.epoch)), repeats.cluster.get(answer.id), answer)
        for answer in answers
    ]
    return tuple(
        msgspec.structs.replace(
            answer, id=name, epoch=epoch, cluster=answer.cluster if cluster is None else cluster
        )
        for (name, epoch), cluster, answer in sorted(named, key=lambda one: one[0])
    )
