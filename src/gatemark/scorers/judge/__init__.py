"""A model as judge: pinned prompts, strict parsing of replies, votes, and its qualification.

Nothing here calls a model. Replies are recorded while a pack runs, and the ``judge`` scorer reads
them from ``sample["judge"]["replies"]``, so that a result can be judged again without paying for it
again. The qualification is in ``judge.qualification``, which needs numpy and is imported only when
used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.scorers.judge.grading import NAME, JudgeOptions, grade_replies
from gatemark.scorers.judge.prompt import JudgeReply
from gatemark.scorers.scorer import KnownScore, Scorable, Score, Scorer, with_options


class JudgeRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run records of a judge."""

    replies: tuple[JudgeReply, ...]


def _score(options: JudgeOptions, item: Scorable) -> Score:
    return grade_replies(options, item, _read_record(item.sample.get("judge")).replies)


def _read_record(value: object) -> JudgeRecord:
    if not isinstance(value, Mapping):
        raise BadInputError("the sample has no recorded replies of a judge")
    try:
        return msgspec.convert(value, JudgeRecord)
    except (msgspec.ValidationError, InvalidValueError) as error:
        raise BadInputError(f"the sample's judge record is not readable: {error}") from error


def _pin_prompt(options: JudgeOptions) -> dict[str, str]:
    return {"prompt": options.prompt_digest, "model": options.model}


def _make_sample(*grades: str) -> dict[str, object]:
    item = Scorable(id="", input=_QUESTION, target=None, output=_ANSWER)
    replies = []
    for number, grade in enumerate(grades, start=1):
        nonce = f"{number:016x}"
        prompt = JudgeOptions().prompt(item, nonce)
        text = f"Because.\nGRADE {nonce}: {grade}"
        replies.append({"nonce": nonce, "prompt": digest_bytes(prompt.encode()), "text": text})
    return {"judge": {"replies": replies}}


_QUESTION: Final = "What is 6 times 7?"
_ANSWER: Final = "42"


def _make_known(title: str, expected: float | None, *grades: str, **options: object) -> KnownScore:
    return KnownScore(
        title,
        expected,
        input=_QUESTION,
        output=_ANSWER,
        sample=_make_sample(*grades),
        options=options,
    )


SCORER = Scorer(
    name=NAME,
    summary="The grade that a model judge gave by a rubric, read strictly from recorded replies.",
    options=JudgeOptions,
    build=with_options(_score),
    needs_target=False,
    pins=_pin_prompt,
    known=(
        _make_known("one vote", 1.0, "CORRECT"),
        _make_known("two of three", 0.0, "CORRECT", "INCORRECT", "INCORRECT", votes=3),
        _make_known(
            "the mean of three",
            2 / 3,
            *("CORRECT", "INCORRECT", "CORRECT"),
            votes=3,
            aggregate="mean",
        ),
        _make_known(
            "an unread vote counts for nobody", 1.0, "CORRECT", "maybe", "CORRECT", votes=3
        ),
        _make_known("unread", None, "Correct!"),
        _make_known("one each and one unread", None, "CORRECT", "INCORRECT", "?", votes=3),
        _make_known("too few votes", None, "CORRECT", votes=3),
        KnownScore(
            "replies about another answer",
            None,
            input=_QUESTION,
            output="43",
            sample=_make_sample("CORRECT"),
        ),
        KnownScore("nothing recorded", None, input=_QUESTION, output=_ANSWER),
    ),
)
