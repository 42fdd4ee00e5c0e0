"""The questions of a suite, the scored answers (per item, per arm, in pairs), and their cost.

Cost means latency, tokens and money, with the rules on them. A missing value is never counted as 0:
one missing value leaves the number without a value, and a rule on it makes the verdict
inconclusive. Cached and recorded answers keep the latency and cost they had when they were given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.core.result import Cell, Figure, Table
from gatemark.evidence.rows import Row
from gatemark.packs.pack import Pack, SuiteSpec
from gatemark.samples.records import SampleOrigin
from gatemark.scorers.recorded import NAME as RECORDED_SCORER
from gatemark.scorers.scorer import Scorable, Score
from gatemark.statistics.quantiles import percentile_disc
from gatemark.targets.journal import UNSCORED
from gatemark.targets.port import ANSWER_FIELDS, Call, CallError, TargetError
from gatemark.targets.runner import CallOutcome, tokens_of
from gatemark.targets.template import Template


class Answer(msgspec.Struct, frozen=True):
    """One answer to one item: a score, or the reason why there is none."""

    id: str
    epoch: int
    output: object
    score: float | None
    reason: str | None
    error: str | None = None
    confidence: float | None = None
    latency_ms: float | None = None
    cluster: str | None = None
    tags: dict[str, str] = {}
    scored_by: str | None = None
    """The tool that gave the score, if it was not Gatemark."""
    cost: float | None = None
    tokens: int | None = None
    parts: dict[str, float] = {}
    """The part scores that a combined score is made of."""
    answered_at: datetime | None = None


def unjudged_answer(row: Row, outcome: CallOutcome, why: CallError) -> Answer:
    """Return an answer whose judge could not be called."""
    return Answer(
        id=row.id,
        epoch=outcome.epoch,
        output=None if outcome.reply is None else outcome.reply.output,
        score=None,
        reason=f"the model that grades could not be asked: {why.message}",
        error=why.kind,
        answered_at=None if outcome.reply is None else outcome.reply.answered_at,
        cluster=row.cluster,
        tags=row.tags,
    )


def scored_answer(
    row: Row, outcome: CallOutcome, found: Score | None, *, scored_by: str | None, has_parts: bool
) -> Answer:
    """Return an answer with its score; an answer without a reply has the error instead.

    ``scored_by`` is the tool that scored, if it was not Gatemark.
    """
    if outcome.reply is None or found is None:
        error = outcome.error
        kind, message = (error.kind, error.message) if error else ("missing", "no reply")
        return Answer(
            id=row.id,
            epoch=outcome.epoch,
            output=None,
            score=None,
            reason=message,
            error=kind,
            cluster=row.cluster,
            tags=row.tags,
        )
    reply = outcome.reply
    return Answer(
        id=row.id,
        epoch=outcome.epoch,
        output=reply.output,
        score=found.value,
        reason=found.reason,
        confidence=reply.confidence,
        latency_ms=reply.latency_ms,
        cluster=row.cluster,
        tags=row.tags,
        scored_by=None if found.value is None else scored_by,
        cost=reply.cost,
        tokens=tokens_of(reply.usage),
        parts=found.parts if has_parts else {},
        answered_at=reply.answered_at,
    )


class ItemScore(NamedTuple):
    """One item over all its repeats; ``mean`` also counts repeats without a score."""

    mean: float
    repeats: int
    scored: int
    right: int
    confidence: float | None
    cluster: str | None
    tags: Mapping[str, str]

    @property
    def whole(self) -> bool:
        """Whether every repeat has a score."""
        return self.scored == self.repeats


def per_item(answers: Iterable[Answer], *, unscored_as: float = 0.0) -> dict[str, ItemScore]:
    """Return answers grouped by item, in the order of the ids.

    A repeat without a score counts as 0, or as ``unscored_as``.
    """
    gathered: dict[str, list[Answer]] = {}
    for answer in answers:
        gathered.setdefault(answer.id, []).append(answer)
    return {name: _item_score(gathered[name], unscored_as) for name in sorted(gathered)}


def baseline_per_item(answers: Iterable[Answer] | None) -> dict[str, ItemScore]:
    """Return a baseline's answers by item; a missing score counts as right.

    Otherwise a baseline that crashes would be easy to beat: missing data about it may only make the
    comparison stricter.
    """
    return per_item(answers or (), unscored_as=1.0)


def _item_score(repeats: list[Answer], unscored_as: float) -> ItemScore:
    if len(repeats) == 1:  # most packs ask once; the sums below give the same in twice the time
        only = repeats[0]
        score, sure = only.score, only.confidence
        return ItemScore(
            mean=float(unscored_as if score is None else score),
            repeats=1,
            scored=int(score is not None),
            right=int(score == 1.0),
            confidence=None if sure is None else float(sure),
            cluster=only.cluster,
            tags=only.tags,
        )
    scores = [answer.score for answer in repeats if answer.score is not None]
    confidences = [answer.confidence for answer in repeats if answer.confidence is not None]
    return ItemScore(
        mean=(sum(scores) + unscored_as * (len(repeats) - len(scores))) / len(repeats),
        repeats=len(repeats),
        scored=len(scores),
        right=sum(score == 1.0 for score in scores),
        confidence=sum(confidences) / len(confidences) if confidences else None,
        cluster=repeats[0].cluster,
        tags=repeats[0].tags,
    )


class AnswerPair(NamedTuple):
    """One item answered by both arms."""

    id: str
    candidate: ItemScore
    baseline: ItemScore


def paired(
    candidate: Mapping[str, ItemScore], baseline: Mapping[str, ItemScore]
) -> tuple[AnswerPair, ...]:
    """Return the items that both arms answered, sorted by id."""
    return tuple(
        AnswerPair(name, candidate[name], baseline[name])
        for name in sorted(candidate)
        if name in baseline
    )


FIRST_EPOCH = 1
REPLAY = "replay"
ItemKey = tuple[str, int]
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


def asked_rows(kind: str, rows: Iterable[Row]) -> tuple[Row, ...]:
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


def sample_of(row: Row) -> dict[str, object]:
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


def asked_of(row: Row) -> dict[str, Any]:
    """Return the row as targets see it: without anything that reveals the right answer."""
    return {name: value for name, value in sample_of(row).items() if name not in ANSWER_FIELDS}


def sample_line(
    row: Row,
    answer: Answer,
    scorer_name: str,
    recorded: Mapping[str, float | None] | None = None,
    origin: Mapping[str, object] | None = None,
) -> bytes:
    """Return an answer as one ``gatemark.sample/1`` line; the bytes are reproducible.

    ``recorded`` are scores that another tool gave, stored so that the score can be derived again.
    """
    failed = answer.error is not None or answer.score is None
    kind = answer.error or UNSCORED
    return (
        canonical_bytes(
            {
                **({"origin": origin} if origin else {}),
                "schema": "gatemark.sample/1",
                "id": row.id,
                "epoch": answer.epoch,
                "input": row.input,
                "target": row.target,
                "output": answer.output,
                "scores": {} if failed else {**(recorded or {}), **_scores(answer, scorer_name)},
                "confidence": answer.confidence,
                "error": {"kind": kind, "message": answer.reason or kind} if failed else None,
                "latency_ms": answer.latency_ms,
                **({} if answer.cost is None else {"cost": answer.cost}),
                **({} if answer.tokens is None else {"tokens": answer.tokens}),
                **({} if answer.answered_at is None else {"answered_at": answer.answered_at}),
                "cluster": row.cluster,
                "tags": row.tags,
            }
        )
        + b"\n"
    )


PART_MARK = "/"
"""Separator between a scorer and one of its parts in score names."""


def _scores(answer: Answer, scorer_name: str) -> dict[str, float | None]:
    parts = {f"{scorer_name}{PART_MARK}{name}": value for name, value in answer.parts.items()}
    return {scorer_name: answer.score, **parts}


def read_sample_lines(data: bytes, place: str) -> list[dict[str, Any]]:
    """Read the samples of a stored file; raise with the line for anything else."""
    samples = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            sample = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInputError(f"{place}:{number}: {error}") from error
        if not isinstance(sample, dict) or sample.get("schema") != "gatemark.sample/1":
            raise BadInputError(f"{place}:{number}: is not a gatemark.sample/1 record")
        sample.setdefault("epoch", FIRST_EPOCH)
        samples.append(sample)
    return samples


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


WHOLE: Final = "bench"
"""Prefix of the ids of rules on all suites together."""
BASELINE: Final = "baseline_"
_METRICS: Final = {
    "p50_ms_max": "latency_p50",
    "p95_ms_max": "latency_p95",
    "tokens_per_item_max": "tokens_per_item",
    "tokens_max": "tokens_total",
    "money_per_item_max": "money_per_item",
    "money_max": "money_total",
}
"""The metric that each limit of a pack applies to."""


class _Quantity(msgspec.Struct, frozen=True):
    """A quantity that an answer may state, and the metrics over all answers."""

    stated: str
    unit: str
    read: Callable[[Answer], float | None]
    metrics: Mapping[str, Callable[[Sequence[float]], float]]


def _percentile(percent: int) -> Callable[[Sequence[float]], float]:
    return lambda values: percentile_disc(np.sort(np.array(values, dtype=np.float64)), percent)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


_QUANTITIES: Final = (
    _Quantity(
        "latency",
        "ms",
        lambda answer: answer.latency_ms,
        {"latency_p50": _percentile(50), "latency_p95": _percentile(95)},
    ),
    _Quantity(
        "tokens",
        "tokens",
        lambda answer: answer.tokens,
        {"tokens_per_item": _mean, "tokens_total": math.fsum},
    ),
    _Quantity(
        "cost",
        "money",
        lambda answer: answer.cost,
        {"money_per_item": _mean, "money_total": math.fsum},
    ),
)
METRICS: Final = frozenset(
    prefix + name for one in _QUANTITIES for name in one.metrics for prefix in ("", BASELINE)
)


def latency_and_cost_rules(pack: Pack) -> tuple[Rule, ...]:
    """Return the latency and cost rules of a pack, per suite and overall."""
    places = [(suite.id, suite.id, suite.latency, suite.cost) for suite in pack.suites]
    return tuple(
        Rule(
            id=f"{name}.{_METRICS[key]}",
            metric=_METRICS[key],
            lane=lane,
            op="<=",
            bound=float(bound),
        )
        for name, lane, latency, cost in (*places, (WHOLE, None, pack.latency, pack.cost))
        for bounds in (latency, cost)
        if bounds is not None
        for key, bound in bounds.given.items()
    )


Arm = Mapping[str, Sequence[Answer]]


def latency_and_cost_numbers(
    pack: Pack, candidate: Arm, baseline: Arm | None, caveat: str | None
) -> list[Measurement]:
    """Return latency, tokens and cost of both arms, by suite and overall.

    A quantity that no answer states and no rule needs is left out.
    """
    asked = {rule.metric for rule in latency_and_cost_rules(pack)}
    suites = [suite.id for suite in pack.suites if suite.dataset is not None]
    found = []
    for prefix, arm in (("", candidate), (BASELINE, baseline)):
        if arm is None or not suites:
            continue
        everything = [answer for suite in suites for answer in arm[suite]]
        for quantity in _QUANTITIES:
            is_stated = any(quantity.read(answer) is not None for answer in everything)
            if not is_stated and (prefix or asked.isdisjoint(quantity.metrics)):
                continue
            for lane, answers in (*((suite, arm[suite]) for suite in suites), (None, everything)):
                found += _numbers(quantity, prefix, lane, answers, caveat)
    return found


def _numbers(
    quantity: _Quantity,
    prefix: str,
    lane: str | None,
    answers: Sequence[Answer],
    caveat: str | None,
) -> list[Measurement]:
    stated = [value for answer in answers if (value := quantity.read(answer)) is not None]
    missing = len(answers) - len(stated)
    reason = "no items were answered"
    if missing:
        reason = f"{missing} of {len(answers)} answers state no {quantity.stated}"
    caveats = () if caveat is None else (caveat,)
    return [
        unmeasured(
            prefix + name,
            reason,
            direction="lower_is_better",
            unit=quantity.unit,
            n=len(stated),
            caveats=caveats,
            lane=lane,
        )
        if missing or not stated
        else measured(
            prefix + name,
            compute(stated),
            n=len(stated),
            direction="lower_is_better",
            unit=quantity.unit,
            caveats=caveats,
            lane=lane,
        )
        for name, compute in quantity.metrics.items()
    ]


def latency_and_cost_table(pack: Pack, numbers: Sequence[Measurement]) -> tuple[Figure, ...]:
    """Return a table of latency and cost per arm and suite, or None if nothing is known."""
    by_key = {number.key: number for number in numbers if number.name in METRICS}
    names = [name for one in _QUANTITIES for name in one.metrics]
    rows: list[tuple[Cell, ...]] = []
    for lane in (*(suite.id for suite in pack.suites), None):
        for arm, prefix in (("candidate", ""), ("baseline", BASELINE)):
            values = [by_key.get((prefix + name, lane)) for name in names]
            shown = [None if one is None or one.value is None else one.value for one in values]
            if any(value is not None for value in shown):
                rows.append((lane or "all suites", arm, *(_short(value) for value in shown)))
    if not rows:
        return ()
    columns = ("suite", "arm", "p50 ms", "p95 ms", "tokens/item", "tokens", "money/item", "money")
    return (Table("Latency and cost", columns, tuple(rows), len(rows)),)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


UNNAMED: Final = "a tool that it does not name"


class RecordedScores(msgspec.Struct, frozen=True):
    """The scores that came with an answer, and the tool that gave them."""

    scores: dict[str, float | None]
    origin: SampleOrigin | None = None

    @property
    def scored_by(self) -> str:
        """The tool that scored, for people."""
        return UNNAMED if self.origin is None else self.origin.name

    def sample(self) -> dict[str, object]:
        """Return what a scorer sees of it."""
        inverted = {
            score: why
            for score in self.scores
            if self.origin is not None and (why := self.origin.inverted(score)) is not None
        }
        return {"scores": dict(self.scores), "inverted": inverted}


def scores_of(
    rows: Iterable[Mapping[str, Any]], *, sealed: bool = False
) -> dict[ItemKey, RecordedScores]:
    """Return the scores of recorded samples by item and epoch.

    In ``sealed`` samples, the score named ``recorded`` was derived from the others; a log with a
    score of that name has it under another name.
    """
    found = {}
    for row in rows:
        scores = dict(row.get("scores") or {})
        taken = scores.pop(RECORDED_SCORER, None)
        if taken is not None and not sealed:
            scores[f"log.{RECORDED_SCORER}"] = taken
        found[row["id"], row["epoch"]] = RecordedScores(scores, origin_of(row))
    return found


def origin_of(row: Mapping[str, object]) -> SampleOrigin | None:
    """Return the log that a recorded sample comes from, or None."""
    found = row.get("origin")
    if found is None:
        return None
    try:
        return msgspec.convert(found, SampleOrigin)
    except msgspec.ValidationError as error:
        raise BadInputError(f"sample {row.get('id')!r}: origin: {error}") from error


def with_recorded(item: Scorable, kept: RecordedScores | None) -> Scorable:
    """Return an item with the scores of its log, as the scorer ``recorded`` reads them."""
    if kept is None:
        return item
    return msgspec.structs.replace(item, sample={**item.sample, RECORDED_SCORER: kept.sample()})


_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_TELLING_LENGTH: Final = 8


def is_rendering(given: object, asked: Iterable[object]) -> bool:
    """Whether an input holds one that was asked: prompts, messages and variables wrap it."""
    if given in asked:
        return True
    text = "".join(_words(given))
    for each in asked:
        parts = _words(each)
        long = [part for part in parts if len(part) >= _TELLING_LENGTH] or parts[:1]
        if not long or any(part in text for part in long):
            return True
    return False


def is_same_target(given: object, known: Iterable[object]) -> bool:
    """Whether a target is one of those known, but for case, spaces and what is around its texts."""
    words = _words(given)
    return any(
        given == each or "".join(words) == "".join(parts) or not {*words}.isdisjoint(parts)
        for each in known
        for parts in (_words(each),)
    )


def _words(value: object) -> list[str]:
    """Return the letters and digits of each text in a value, longest text first."""
    if isinstance(value, Mapping):
        value = [part for name, part in value.items() if name != "role"]
    if isinstance(value, list | tuple):
        return sorted((part for each in value for part in _words(each)), key=len, reverse=True)
    text = "" if value is None else _BETWEEN_WORDS.sub("", str(value)).casefold()
    return [text] if text else []
