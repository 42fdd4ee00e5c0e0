"""Rank several models by votes between two of them, with the Bradley-Terry model.

A tie counts half for each side. Votes on one item are not independent, so intervals come from
resampling whole items. Models that never met, even through others, have no ranking. If one model or
group won every comparison with the rest, no finite strengths fit: the order still holds, the
intervals are missing, and the direct votes decide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np

from gatemark.checks.preference.records import SCHEMA, ModelVote
from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.policy import Outcome
from gatemark.core.text import did_you_mean
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.exam_options import option
from gatemark.evidence.input_problems import refuse_input
from gatemark.evidence.inputs import normalize_id
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source, digest_source, inspect_source
from gatemark.report.words import NOT_MEASURED, VERDICT_WORDS, clean, number
from gatemark.statistics.bradley_terry import Match, RedrawnStrengths, draw_strengths
from gatemark.statistics.preference import (
    MIN_DECISIVE,
    judge_preference,
    order_p_value,
    position_bias,
)

MAX_MODELS: Final = 30
MAX_VOTES: Final = 1_000_000
MIN_RESAMPLES: Final = 1_000
DRAWS_PER_TAIL: Final = 20
NEVER_MET: Final = "some models never met, not even through others, so they have no common scale"


class PreferenceParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    alpha: Annotated[
        float, option("Significance level of each one-sided claim.", low=0, high=0.5, is_open=True)
    ] = 0.05
    peeking: Annotated[
        bool,
        option("Results may be read before all votes are in: decided by an anytime-valid e-value."),
    ] = False
    min_decisive: Annotated[int, option("Minimum number of items that are not ties.", low=1)] = (
        MIN_DECISIVE
    )
    candidate: Annotated[
        str | None,
        option("Model to judge, in votes between several models."),
    ] = None
    baseline: Annotated[
        str | None,
        option("Model to judge it against (default: every other one)."),
    ] = None
    seed: Annotated[int, option("Random seed of the intervals of a ranking.", low=0)] = 0


_ASKED: Final = ("candidate", "baseline", "alpha", "min_decisive", "seed")


class RankedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model; strengths are on the log scale with mean zero over all models.

    ``beats_average`` is the probability of being preferred to a model of strength zero.
    ``interval`` is null if the model won or lost everything against a group of others.
    """

    name: str
    rank: int
    log_strength: float
    interval: tuple[float, float] | None
    beats_average: float
    wins: float
    losses: float


class ModelComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate against one other model; a positive difference favours the candidate."""

    model: str
    difference: float
    interval: tuple[float, float] | None
    items: int
    outcome: Outcome
    reason: str


class PreferenceRanking(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of votes between several models; the fields are the keys of the document.

    ``verdict`` is null if a ranking exists and no candidate was named.
    """

    models: tuple[RankedModel, ...]
    comparisons: tuple[ModelComparison, ...]
    verdict: Outcome | None
    reason: str
    blockers: tuple[str, ...]
    caveats: tuple[str, ...]
    items: int
    votes: int
    reviewers: int
    candidate: str | None
    baseline: str | None
    alpha: float
    level: float
    min_decisive: int
    seed: int
    resamples: int
    file: EvidenceFile


class _Counted(NamedTuple):
    """Votes by item and pair: how often each side of the pair won; a tie counts half.

    ``leans`` says how much more often the first side of the pair was shown first than the second.
    """

    names: tuple[str, ...]
    pairs: dict[tuple[str, int, int], list[float]]
    leans: Counter[tuple[str, int, int]]
    votes: int
    reviewers: int
    first_wins: int
    decisive: int


def is_between_models(path: str, choices: ReadingChoices) -> bool:
    """Return whether the first line of a file is a vote between two models."""
    first = next(read_blocks(whole_file(inspect_source(path)), choices.limits), None)
    if first is None:
        return False
    line = next((one for one in first.data.splitlines() if one.strip()), b"")
    try:
        keys = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).keys()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return bool(keys & {"model_a", "model_b", "winner"}) and "choice" not in keys


def rank_models(
    path: str, request: PreferenceParameters, choices: ReadingChoices
) -> PreferenceRanking:
    """Count the votes, rank the models, and judge the candidate if one is named."""
    if not 0 < request.alpha < 0.5:
        raise InvalidValueError(f"alpha must be inside (0, 0.5), got {request.alpha}")
    source = inspect_source(path)
    counted = _count_votes(source, choices)
    request = _find_models(counted.names, request, source.name)
    items = {
        item: place for place, item in enumerate(dict.fromkeys(key[0] for key in counted.pairs))
    }
    matches = [
        Match(items[item], first, second, *won)
        for (item, first, second), won in counted.pairs.items()
    ]
    rivals = _choose_rivals(counted.names, request)
    # Enough draws for the smallest tail to contain some.
    tail = request.alpha / max(1, len(rivals))
    resamples = max(MIN_RESAMPLES, math.ceil(DRAWS_PER_TAIL / tail))
    draws = draw_strengths(
        len(counted.names), matches, items=len(items), seed=request.seed, resamples=resamples
    )
    comparisons = (
        ()
        if draws is None
        else tuple(
            _check_order(
                _compare_with(request, counted, draws, rival, tail), request, counted, tail
            )
            for rival in rivals
        )
    )
    verdict, reason = _judge_ranking(request, draws, comparisons)
    return PreferenceRanking(
        models=() if draws is None else _describe_models(counted.names, draws, request.alpha),
        comparisons=comparisons,
        verdict=verdict,
        reason=reason,
        blockers=(reason,) if verdict in {"fail", "inconclusive"} else (),
        caveats=tuple(_find_caveats(counted, draws)),
        items=len(items),
        votes=counted.votes,
        reviewers=counted.reviewers,
        **{name: getattr(request, name) for name in _ASKED},
        level=1 - request.alpha,
        resamples=resamples,
        file=digest_source(source),
    )


def _count_votes(source: Source, choices: ReadingChoices) -> _Counted:
    reader = RecordReader(SCHEMA.form("models"), choices)
    numbers: dict[str, int] = {}
    names: list[str] = []
    pairs: dict[tuple[str, int, int], list[float]] = {}
    seen: dict[tuple[str, str, frozenset[str]], int] = {}
    repeated: list[str] = []
    leans: Counter[tuple[str, int, int]] = Counter()
    first_wins = decisive = 0
    for batch in reader.records(read_blocks(whole_file(source), choices.limits)):
        for line, vote in zip(reader.batch_lines, batch, strict=True):
            item, reviewer = normalize_id(vote.item), normalize_id(vote.reviewer)
            models = (normalize_id(vote.model_a), normalize_id(vote.model_b))
            key = (item, reviewer, frozenset(models))
            if key in seen:
                repeated.append(
                    f"{source.name}:{line}: {vote.reviewer} voted on item {vote.item} between "
                    f"these models in line {seen[key]} too; a reviewer votes once"
                )
                continue
            seen[key] = line
            for model, name in zip(models, (vote.model_a, vote.model_b), strict=True):
                if numbers.setdefault(model, len(names)) == len(names):
                    names.append(name)
            first, second = (numbers[model] for model in models)
            _add(pairs, item, vote, first, second)
            low, high = sorted((first, second))
            leans[item, low, high] += 1 if first == low else -1
            first_wins += vote.winner == "model_a"
            decisive += vote.winner in {"model_a", "model_b"}
        if len(numbers) > MAX_MODELS or len(seen) > MAX_VOTES:
            raise BadInputError(
                f"{source.name}: has {len(numbers)} models and {len(seen)} votes or more; at most "
                f"{MAX_MODELS} models and {MAX_VOTES} votes can be ranked"
            )
    refuse_input(
        reader.problems(source.name) + repeated, choices, total=reader.rejected + len(repeated)
    )
    if not seen:
        raise BadInputError(f"{source.name}: contains no votes")
    reviewers = len({reviewer for _, reviewer, _ in seen})
    return _Counted(tuple(names), pairs, leans, len(seen), reviewers, first_wins, decisive)


def _add(
    pairs: dict[tuple[str, int, int], list[float]],
    item: str,
    vote: ModelVote,
    first: int,
    second: int,
) -> None:
    won = {"model_a": (1.0, 0.0), "model_b": (0.0, 1.0)}.get(vote.winner, (0.5, 0.5))
    if first > second:
        first, second, won = second, first, won[::-1]
    sums = pairs.setdefault((item, first, second), [0.0, 0.0])
    sums[0] += won[0]
    sums[1] += won[1]


def _find_models(
    names: Sequence[str], request: PreferenceParameters, place: str
) -> PreferenceParameters:
    """Return the request with the two models as the votes spell them first."""
    if request.baseline is not None and request.candidate is None:
        raise UsageError("--baseline needs --candidate: which model is judged against it?")
    known = {normalize_id(name): name for name in names}
    found = {}
    for flag in ("candidate", "baseline"):
        name = getattr(request, flag)
        if name is None:
            continue
        if normalize_id(name) not in known:
            raise UsageError(
                f"{place}: no vote names the model {name!r} of --{flag}"
                f"{did_you_mean(name, names)} (models: {', '.join(sorted(names)[:20])})"
            )
        found[flag] = known[normalize_id(name)]
    if len(found) > len(set(found.values())):
        raise UsageError("--candidate and --baseline must be two models")
    return msgspec.structs.replace(request, **found)


def _choose_rivals(names: Sequence[str], request: PreferenceParameters) -> tuple[str, ...]:
    if request.candidate is None:
        return ()
    if request.baseline is not None:
        return (request.baseline,)
    return tuple(name for name in names if name != request.candidate)


def _describe_models(
    names: Sequence[str], draws: RedrawnStrengths, alpha: float
) -> tuple[RankedModel, ...]:
    ends = np.quantile(draws.spread, [alpha / 2, 1 - alpha / 2], axis=0, method="inverted_cdf")
    is_finite = len(set(draws.group.tolist())) == 1
    return tuple(
        RankedModel(
            name=names[at],
            rank=rank,
            log_strength=float(draws.best[at]),
            interval=(float(ends[0, at]), float(ends[1, at])) if is_finite else None,
            beats_average=float(1 / (1 + np.exp(-draws.best[at]))),
            wins=float(draws.wins[at].sum()),
            losses=float(draws.wins[:, at].sum()),
        )
        for rank, at in enumerate(np.argsort(-draws.best, kind="stable").tolist(), start=1)
    )


def _compare_with(
    request: PreferenceParameters,
    counted: _Counted,
    draws: RedrawnStrengths,
    rival: str,
    tail: float,
) -> ModelComparison:
    """Compare the candidate with a rival, at a share of alpha so that all claims hold at once."""
    at, other = counted.names.index(request.candidate or ""), counted.names.index(rival)
    difference = float(draws.best[at] - draws.best[other])
    wins, losses, ties = _count_direct(counted.pairs, at, other)
    if draws.group[at] != draws.group[other]:
        direct = judge_preference(wins, losses, ties, alpha=tail, min_decisive=request.min_decisive)
        words = {"pass": "it is preferred", "fail": f"{rival} is preferred"}
        found = words.get(direct.outcome, "the direct votes do not decide")
        return ModelComparison(
            model=rival,
            difference=difference,
            interval=None,
            items=wins + losses + ties,
            outcome=direct.outcome,
            reason=f"one side won everything, so direct votes decide: {found} "
            f"({wins} items won, {losses} lost, {ties} tied)",
        )
    spread = draws.spread[:, at] - draws.spread[:, other]
    low, high = (float(end) for end in np.quantile(spread, [tail, 1 - tail], method="inverted_cdf"))
    shown = f"difference {difference:.3f} [{low:.3f}, {high:.3f}]"
    items = _count_decisive(counted.pairs, at)
    outcome: Outcome = "pass" if low > 0 else "fail" if high < 0 else "inconclusive"
    reason = {
        "pass": f"it is preferred, {shown}",
        "fail": f"{rival} is preferred, {shown}",
        "inconclusive": f"neither is clearly preferred, {shown}",
    }[outcome]
    fewest = min(items, _count_decisive(counted.pairs, other))
    if fewest < request.min_decisive:
        outcome = "inconclusive"
        reason = f"{fewest} decisive items of one model, at least {request.min_decisive} are needed"
    return ModelComparison(
        model=rival,
        difference=difference,
        interval=(low, high),
        items=wins + losses + ties,
        outcome=outcome,
        reason=reason,
    )


def _check_order(
    found: ModelComparison, request: PreferenceParameters, counted: _Counted, tail: float
) -> ModelComparison:
    """Hold a preference open that may be the habit of choosing the answer shown first.

    Only between two models: with more, each comparison also rests on votes between others.
    """
    if found.outcome != "pass" or len(counted.names) > 2:
        return found
    at = counted.names.index(request.candidate or "")
    orders: Counter[tuple[int, bool]] = Counter()
    for key, (for_first, for_second) in counted.pairs.items():
        if for_first != for_second:
            side = 1 if key[1] == at else -1
            lean = counted.leans[key] * side
            orders[(lean > 0) - (lean < 0), (for_first - for_second) * side > 0] += 1
    strata = [(orders[way, True], orders[way, True] + orders[way, False]) for way in (1, -1, 0)]
    is_balanced = abs(strata[0][1] - strata[1][1]) <= 1
    if is_balanced or order_p_value(*strata) <= tail:
        return found
    reason = (
        f"{found.reason}, but not if being shown first or second decides: it was shown first on "
        f"{strata[0][1]} decisive items and second on {strata[1][1]}"
    )
    return msgspec.structs.replace(found, outcome="inconclusive", reason=reason)


def _count_direct(
    pairs: Mapping[tuple[str, int, int], Sequence[float]], at: int, other: int
) -> tuple[int, int, int]:
    """Return how many items a side won, lost and tied against another, by majority."""
    wins = losses = ties = 0
    for (_, first, second), (for_first, for_second) in pairs.items():
        if {first, second} == {at, other}:
            margin = (for_first - for_second) * (1 if first == at else -1)
            wins, losses, ties = wins + (margin > 0), losses + (margin < 0), ties + (margin == 0)
    return wins, losses, ties


def _count_decisive(pairs: Mapping[tuple[str, int, int], Sequence[float]], at: int) -> int:
    return len({item for (item, *sides), won in pairs.items() if at in sides and won[0] != won[1]})


def _judge_ranking(
    request: PreferenceParameters,
    draws: RedrawnStrengths | None,
    comparisons: Sequence[ModelComparison],
) -> tuple[Outcome | None, str]:
    """Return pass if every comparison passes, fail if one fails, else inconclusive."""
    if draws is None:
        return "inconclusive", NEVER_MET
    if request.candidate is None:
        return None, "a ranking; name a model with --candidate to judge it"
    for outcome in ("fail", "inconclusive"):
        for one in comparisons:
            if one.outcome == outcome:
                return outcome, f"{request.candidate} against {one.model}: {one.reason}"
    rivals = ", ".join(one.model for one in comparisons)
    return "pass", f"{request.candidate} is preferred to {rivals}"


def _find_caveats(counted: _Counted, draws: RedrawnStrengths | None) -> Iterator[str]:
    if draws is not None and len(set(draws.group.tolist())) > 1:
        for at, name in enumerate(counted.names):
            if not draws.wins[:, at].any():
                yield f"{name} won every comparison: its strength has no upper bound"
            elif not draws.wins[at].any():
                yield f"{name} lost every comparison: its strength has no lower bound"
        yield "models fall into groups of which one won everything, so intervals are missing"
    bias = position_bias(counted.first_wins, counted.decisive)
    if bias.is_biased:
        yield f"position bias: model_a won {bias.first_win_rate:.3f} of decisive votes"


def format_ranking(found: PreferenceRanking) -> str:
    """Format the ranking for the terminal."""
    word = "RANKING" if found.verdict is None else VERDICT_WORDS[found.verdict]
    lines = [clean(f"{word}  {found.reason}"), ""]
    lines.append(f"{'':>3} {'model':<24}{'log strength':>13}  {'interval':<20}{'won, lost'}")
    for one in found.models:
        ends = NOT_MEASURED
        if one.interval is not None:
            ends = f"[{number(one.interval[0])}, {number(one.interval[1])}]"
        score = f"{one.wins:g}, {one.losses:g}"
        lines.append(
            clean(f"{one.rank:>3} {one.name:<24}{number(one.log_strength):>13}  {ends:<20}{score}")
        )
    lines.append("")
    lines.append(f"{found.votes} votes on {found.items} items by {found.reviewers} reviewers")
    lines.extend(clean(f"against {one.model}: {one.reason}") for one in found.comparisons)
    lines.extend(clean(f"caveat: {caveat}") for caveat in found.caveats)
    return "\n".join(lines)
