"""The check that every scorer passes: known answers, stable options, no side effects."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.scorers.scorer import KnownScore, Scorable, Score, ScoreFunction, Scorer

MAX_DETAIL_LENGTH: Final = 1_000

AWKWARD_OUTPUTS: Final[tuple[object, ...]] = (
    None,
    "",
    " \n\t",
    "\x00\ud800\u200b",
    "٣.١٤ ½ −5 1e999 0x1F",
    "9" * 5_000,
    "((((((((((",
    "[" * 5_000,
    '{"a": NaN, "a": 1}',
    "```json\n{}\n```",
    True,
    0,
    -0.0,
    math.nan,
    math.inf,
    10**5_000,
    1e308,
    [],
    {},
    [None, [], {}, "x", 1, False],
    {"citations": "p1", "tool_calls": [None, {"name": 3}], "": {"~/": []}},
    b"not JSON",
)
"""Odd outputs that every scorer must handle."""


def check_scorer(scorer: Scorer, outputs: Sequence[object] = ()) -> None:
    """Raise AssertionError unless ``scorer`` follows the contract of scorers.

    It must give its known answers, read its own options back, refuse unknown options, and have a
    stable identity. Missing input must give a reason. Every output, however odd, must give the same
    bounded score twice, without raising and without changing the item.
    """
    _check_nouns(scorer)
    for known in scorer.known:
        _check_options(scorer, known)
        _check_known(scorer, known)
    _check_missing(scorer)
    for known in scorer.known:
        for output in (*AWKWARD_OUTPUTS, *outputs):
            _check_manners(scorer, known, output)


def _check_nouns(scorer: Scorer) -> None:
    if not scorer.name.isidentifier():
        _fail(scorer, "its name must be an identifier")
    if not scorer.summary.strip():
        _fail(scorer, "has no summary")
    if not scorer.known:
        _fail(scorer, "has no known answers")
    if not scorer.options.__struct_config__.frozen:
        _fail(scorer, "its options must be frozen")
    titles = [known.title for known in scorer.known]
    if len(set(titles)) != len(titles):
        _fail(scorer, "two known answers have the same title")


def _check_options(scorer: Scorer, known: KnownScore) -> None:
    options = scorer.options_from(known.options)
    plain = msgspec.to_builtins(options)
    if scorer.options_from(plain) != options:
        _fail(scorer, f"{known.title}: options change when written and read back")
    if scorer.identity(scorer.options_from(plain)) != scorer.identity(options):
        _fail(scorer, f"{known.title}: equal options have two identities")
    try:
        scorer.options_from({**plain, "no such option": 1})
    except BadInputError:
        return
    _fail(scorer, "an unknown option must be refused")


def _check_known(scorer: Scorer, known: KnownScore) -> None:
    score = _prepare_scorer(scorer, known)(_copy_item(known))
    _check_score(scorer, known.title, score)
    if known.expected is None:
        if score.value is not None:
            _fail(scorer, f"{known.title}: must give a reason and no value, got {score.value}")
    elif score.value is None:
        _fail(scorer, f"{known.title}: must be {known.expected}, got none: {score.reason}")
    elif not abs(score.value - known.expected) <= known.tolerance:
        _fail(scorer, f"{known.title}: must be {known.expected}, got {score.value}")


def _check_missing(scorer: Scorer) -> None:
    known = scorer.known[0]
    whole = _copy_item(known)
    lacking = {
        "an errored sample": msgspec.structs.replace(whole, sample={"error": {"kind": "timeout"}})
    }
    if scorer.needs_target:
        lacking["no target"] = msgspec.structs.replace(whole, target=None)
    if scorer.needs_output:
        lacking["no output"] = msgspec.structs.replace(whole, output=None)
    for what, item in lacking.items():
        score = _prepare_scorer(scorer, known)(item)
        if score.value is not None:
            _fail(scorer, f"{what} must give a reason, got {score.value}")


def _check_manners(scorer: Scorer, known: KnownScore, output: object) -> None:
    place = f"{known.title}, output {type(output).__name__}"
    item = msgspec.structs.replace(_copy_item(known), output=copy.deepcopy(output))
    before = copy.deepcopy(item)
    score_item = _prepare_scorer(scorer, known)
    score = score_item(item)
    _check_score(scorer, place, score)
    if score_item(item) != score or _prepare_scorer(scorer, known)(item) != score:
        _fail(scorer, f"{place}: gave two scores for one item")
    if not _are_same(before, item):
        _fail(scorer, f"{place}: changed the item it scored")


def _are_same(before: Scorable, after: Scorable) -> bool:
    # Compared by their printed form, in which NaN equals NaN.
    return all(
        _format_value(getattr(before, name)) == _format_value(getattr(after, name))
        for name in Scorable.__struct_fields__
    )


def _format_value(value: object) -> object:
    return value if isinstance(value, int) else repr(value)


def _check_score(scorer: Scorer, place: str, score: object) -> None:
    if not isinstance(score, Score):
        _fail(scorer, f"{place}: must give a Score, got {type(score).__name__}")
    details: Mapping[str, object] = score.detail
    for name, text in details.items():
        if not isinstance(text, str) or len(text) > MAX_DETAIL_LENGTH:
            _fail(scorer, f"{place}: detail {name} must be a text of bounded length")


def _copy_item(known: KnownScore) -> Scorable:
    # A copy, so that a scorer that changes one item is caught at that item.
    return copy.deepcopy(known.scorable())


def _prepare_scorer(scorer: Scorer, known: KnownScore) -> ScoreFunction:
    return scorer.ready(scorer.options_from(known.options))


def _fail(scorer: Scorer, finding: str) -> NoReturn:
    raise AssertionError(f"scorer {scorer.name!r}: {finding}")
