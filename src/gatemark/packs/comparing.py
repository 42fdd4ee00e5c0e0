"""Ask judges to compare the answers of two arms, after both have answered.

The replies belong to the candidate: they are stored beside its answers, so that judging again reads
them, and every candidate of a matrix has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gatemark.packs.answers import Answer, ItemKey
from gatemark.packs.asked_arms import AskedArm
from gatemark.packs.graders import Graders
from gatemark.packs.judge_replies import Graded
from gatemark.packs.pack_file import BASELINE, OpenPack
from gatemark.packs.suites.preference import are_equal, make_pairs
from gatemark.targets.port import CallError


async def compare_arms(
    opened: OpenPack, arms: Mapping[str, AskedArm], graders: Graders
) -> dict[str, AskedArm]:
    """Return the arms, each candidate with the replies of judges that compared its answers.

    Equal answers are not shown to a judge: they are ties.
    """
    compared = dict(arms)
    baseline = arms[BASELINE].answers.answers if BASELINE in arms else {}
    for name in arms:
        for suite in opened.pack.suites if name != BASELINE else ():
            if suite.comparing_judge is None:
                continue
            own, rows = compared[name].answers, opened.snapshots[suite.id].rows
            pairs = make_pairs(rows, own.answers[suite.id], baseline.get(suite.id, ()))
            differing = {key: pair for key, pair in pairs.items() if not are_equal(pair)}
            graded = await graders.grade(suite, name, differing)
            own = msgspec.structs.replace(
                own,
                answers={
                    **own.answers,
                    suite.id: mark_unjudged_answers(own.answers[suite.id], graded),
                },
                graded={**own.graded, suite.id: graded},
            )
            compared[name] = msgspec.structs.replace(compared[name], answers=own)
    return compared


def mark_unjudged_answers(answers: tuple[Answer, ...], graded: Graded) -> tuple[Answer, ...]:
    """Return answers with those marked that the judge could not be asked to compare."""
    lost = graded.outages()
    return tuple(_mark_unjudged(answers, lost)) if lost else answers


def _mark_unjudged(
    answers: Sequence[Answer], lost: Mapping[ItemKey, CallError]
) -> Iterator[Answer]:
    for answer in answers:
        why = lost.get((answer.id, answer.epoch))
        if why is None:
            yield answer
        else:
            reason = f"the judge could not be asked to compare: {why.message}"
            yield msgspec.structs.replace(answer, score=None, error=why.kind, reason=reason)
