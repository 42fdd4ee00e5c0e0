"""promptfoo evaluations: `.json`, `.jsonl`, `.yaml` and `.csv`, of every version.

Baseline and candidate are usually two columns of one file; each column is an arm. Only the fields
named here are read: the resolved config alongside them may contain secrets.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gatemark.samples.gathering import (
    Gathering,
    check_count,
    check_mean,
    find_repeats,
    make_error,
    make_log_importer,
    make_tags,
    read_id,
    score_number,
    shorten_value,
)
from gatemark.samples.importer import ClaimCheck, ForeignError, ForeignFile, Imported, LogExperiment
from gatemark.samples.promptfoo_forms import (
    PlacedRow,
    PromptfooAssertion,
    PromptfooLog,
    PromptfooProvider,
    PromptfooRow,
    PromptfooTest,
    is_promptfoo,
    load_promptfoo,
)

_JUDGED: Final = frozenset(
    {
        "answer-relevance",
        "classifier",
        "context-faithfulness",
        "context-recall",
        "context-relevance",
        "conversation-relevance",
        "factuality",
        "g-eval",
        "llm-rubric",
        "model-graded-closedqa",
        "model-graded-factuality",
        "moderation",
        "pi",
        "search-rubric",
        "select-best",
        "similar",
    }
)
"""Assertions that a model decides."""


class _Evaluation(NamedTuple):
    """A log, its rows, and the name of each column."""

    log: PromptfooLog | None
    placed: list[PlacedRow]
    names: dict[int, str]


def _load(file: ForeignFile, gathering: Gathering) -> _Evaluation:
    log, found = load_promptfoo(file)
    placed = list(gathering.readable(found))
    return _Evaluation(log, placed, _name_arms(placed))


def _read(evaluation: _Evaluation, gathering: Gathering) -> Imported:
    """Read the rows of one column; rows that failed to run are errors, whatever their score."""
    log, placed, names = evaluation
    arm = gathering.choose_arm(_read_arms(evaluation)) if placed else ""
    keys = _choose_keys(placed, log, gathering)
    _note_partial(log, placed, gathering)
    mine = [entry for entry in placed if names[entry[2].prompt_idx] == arm]
    providers = {_name_provider(row) for _, _, row in mine}
    if len(providers) > 1:
        listed = ", ".join(sorted(map(repr, providers)))
        gathering.note_contradiction(f"column {arm!r} has rows of several providers: {listed}")
    for place, raw, row in mine:
        item, epoch = keys[row.test_idx]
        _add(gathering, place, gathering.choose_id(place, raw, item), epoch, row)
    if log is None:
        gathering.note("the file has rows only, without aggregates to check against")
    else:
        _check(gathering, log, mine, placed)
        gathering.version = log.version
        gathering.lineage |= {"eval_id": log.eval_id, "promptfoo": log.version or ""}
    _note_assertions([row for _, _, row in mine], gathering)
    absent = len({row.test_idx for _, _, row in placed} - {row.test_idx for _, _, row in mine})
    if absent:
        gathering.partial(f"arm {arm!r} has no row for {absent} tests that other arms have")
    return gathering.finish(arm=arm, headline="success")


def _read_arms(evaluation: _Evaluation) -> tuple[LogExperiment, ...]:
    """Return one arm per column, named by its provider and, if needed, its prompt."""
    counts = Counter(row.prompt_idx for _, _, row in evaluation.placed)
    return tuple(LogExperiment(evaluation.names[index], counts[index]) for index in sorted(counts))


def _name_arms(placed: list[PlacedRow]) -> dict[int, str]:
    columns: dict[int, tuple[str, str]] = {}
    for _, _, row in placed:
        label = (row.prompt and (row.prompt.label or row.prompt.display)) or ""
        columns.setdefault(row.prompt_idx, (_name_provider(row), label))
    providers = Counter(provider for provider, _ in columns.values())
    pairs = Counter(columns.values())
    names = {}
    for index, (provider, prompt) in columns.items():
        name = provider
        if providers[provider] > 1 or not provider:
            name = f"{provider} / {prompt}" if provider else prompt
        names[index] = name if name and pairs[provider, prompt] == 1 else f"{name} #{index}"
    return names


def _name_provider(row: PromptfooRow) -> str:
    if isinstance(row.provider, PromptfooProvider):
        return row.provider.label or row.provider.id
    return row.provider


def _choose_keys(
    placed: list[PlacedRow], log: PromptfooLog | None, gathering: Gathering
) -> dict[int, tuple[str, int]]:
    """Return id and epoch of every test: the case's own id if all have one, else the position.

    With ``--repeat``, the log has a test for every repeat. Tests with the same content are epochs
    of one item, because they are not independent.
    """
    cases: dict[int, PromptfooRow] = {}
    for _, _, row in placed:
        cases.setdefault(row.test_idx, row)
    repeat = 1 if log is None else log.repeat
    same = find_repeats({index: _read_content(row) for index, row in cases.items()})
    metadata = {index: row.test_case.metadata or {} for index, row in cases.items()}
    candidates: tuple[dict[int, object], ...] = (
        {index: metadata[index].get("case_id") for index in cases},
        {index: metadata[index].get("id") for index in cases},
        {index: row.test_case.description for index, row in cases.items()},
    )
    for candidate in candidates:
        keys = _key_by_name(candidate, same, repeat)
        if keys is not None:
            return keys
    gathering.by_position = True
    gathering.note("tests have no unique ids: testIdx, their position, is used")
    return _key_by_position(same, repeat, None if log is None else log.test_count)


def _read_content(row: PromptfooRow) -> object:
    """Return the content of a test; the prompt around it belongs to the column."""
    test = row.test_case
    asserted = [(one.type, one.value, one.metric) for one in test.asserted or []]
    return [row.vars if row.vars else test.vars, asserted, test.description, test.metadata]


def _key_by_name(
    candidate: Mapping[int, object], same: Mapping[int, tuple[int, int]], repeat: int
) -> dict[int, tuple[str, int]] | None:
    """Return ids and epochs by a name, or None if a name is missing or ambiguous."""
    seen: Counter[str] = Counter()
    contents: dict[str, set[int]] = defaultdict(set)
    keys = {}
    for index in sorted(candidate):
        name = read_id(candidate[index])
        if name is None:
            return None
        seen[name] += 1
        contents[name].add(same[index][0])
        keys[index] = (name, seen[name])
    shared = any(len(contents[name]) > 1 and count > repeat for name, count in seen.items())
    return None if shared else keys


def _key_by_position(
    same: Mapping[int, tuple[int, int]], repeat: int, test_count: int | None
) -> dict[int, tuple[str, int]]:
    """Return ids by position; repeats with changed variables are matched by their order."""
    told_apart = all(epoch == 1 for _, epoch in same.values())
    if repeat > 1 and told_apart and test_count is not None and len(same) == repeat * test_count:
        order = {index: place for place, index in enumerate(sorted(same))}
        return {index: (str(place // repeat), place % repeat + 1) for index, place in order.items()}
    return {index: (str(first), epoch) for index, (first, epoch) in same.items()}


def _note_partial(log: PromptfooLog | None, placed: list[PlacedRow], gathering: Gathering) -> None:
    if log is None or log.test_count is None:
        return
    ran, wanted = len({row.test_idx for _, _, row in placed}), log.test_count * log.repeat
    if ran < wanted:
        times = "" if log.repeat == 1 else f", each {log.repeat} times"
        gathering.partial(
            f"results cover {ran} of the {wanted} tests in the config{times} (filtered run)"
        )


def _add(gathering: Gathering, place: str, item: object, epoch: int, row: PromptfooRow) -> None:
    scores: dict[str, object] = {"success": row.success, "score": row.score}
    for name, value in (row.named_scores or {}).items():
        scores[f"named/{name}" if name in ("success", "score") else name] = value
    tags = make_tags(row.test_case.metadata)
    cached = row.response is not None and row.response.cached is True
    if cached:
        tags["cached"] = "true"
        gathering.note("answers from the cache have no latency and no cost")
    error: ForeignError | None = None
    if not row.ran:
        error = make_error(row.error or (row.response and row.response.error) or "", "row_error")
    gathering.add(
        place,
        item=item,
        epoch=epoch,
        given=row.vars if row.vars else (row.prompt and row.prompt.raw),
        target=_read_target(row.test_case),
        output=row.response and row.response.output,
        scores=scores,
        error=error,
        latency_ms=None if cached else row.latency_ms,
        tags=tags,
        cost=None if cached else row.cost,
        tokens=None if cached else (row.token_usage or {}).get("total"),
    )


def _read_target(test: PromptfooTest) -> object:
    asserted: list[PromptfooAssertion] = test.asserted or []
    if len(asserted) == 1:
        return asserted[0].value
    return [
        {"type": one.type, "value": one.value, "metric": one.metric} for one in asserted
    ] or None


def _note_assertions(rows: list[PromptfooRow], gathering: Gathering) -> None:
    """Record which assertions made each score; promptfoo's scores are all better when higher."""
    kinds: dict[str, set[str]] = defaultdict(set)
    thresholds = set()
    for row in rows:
        if row.test_case.threshold is not None:
            thresholds.add(str(row.test_case.threshold))
        for one in _flatten(row.test_case.asserted or []):
            described = _describe_assertion(one, row.test_case)
            for score in ("success", "score", one.metric):
                if score is not None:
                    kinds[score].add(described)
    gathering.higher_is_better |= kinds.keys() | {"success", "score"}
    for score, found in kinds.items():
        gathering.scored_with(score, {"list of assertions": ", ".join(sorted(found))})
    for score in ("success", "score"):
        gathering.scored_with(score, {"threshold": ", ".join(sorted(thresholds)) or None})


def _flatten(asserted: list[PromptfooAssertion]) -> Iterator[PromptfooAssertion]:
    for one in asserted:
        yield one
        yield from _flatten(one.asserted or [])


def _describe_assertion(one: PromptfooAssertion, test: PromptfooTest) -> str:
    """Return the type of an assertion, its threshold and the model that judges, if it has them."""
    judge = one.provider
    if judge is None and one.type.removeprefix("not-") in _JUDGED and test.options is not None:
        judge = test.options.provider
    settings = {"threshold": one.threshold, "judge": judge}
    told = [f"{name} {_write(value)}" for name, value in settings.items() if value is not None]
    return f"{one.type} ({', '.join(told)})" if told else one.type


def _write(value: object) -> str:
    named = value.get("id") if isinstance(value, dict) else value
    return named if isinstance(named, str) else shorten_value(named)


def _check(
    gathering: Gathering, log: PromptfooLog, mine: list[PlacedRow], placed: list[PlacedRow]
) -> None:
    stats = log.stats
    _check_outcomes(gathering, "stats", (stats.successes, stats.failures, stats.errors), placed)
    column = mine[0][2].prompt_idx if mine else -1
    metrics = log.columns[column].metrics if 0 <= column < len(log.columns) else None
    if metrics is None:
        return
    counts = (metrics.test_pass_count, metrics.test_fail_count, metrics.test_error_count)
    _check_outcomes(gathering, "arm", counts, mine)
    values = [float(row.success) for _, _, row in mine if row.ran and row.success is not None]
    gathering.note_left_out("success", values, len(mine), "rows failed to run")
    for name, weight in metrics.named_score_weights.items():
        claimed = metrics.named_scores.get(name)
        if claimed is not None and weight:
            gathering.check(_check_named(name, claimed / weight, mine))


def _check_outcomes(
    gathering: Gathering,
    label: str,
    claimed: tuple[int | None, int | None, int | None],
    placed: list[PlacedRow],
) -> None:
    """Compare counts; versions that do not count errors separately count them as failures."""
    found: dict[str, int] = defaultdict(int)
    for _, _, row in placed:
        outcome = "errors" if not row.ran else "successes" if row.success else "failures"
        found[outcome] += 1
    if claimed[2] is None:
        found["failures"] += found["errors"]
    for name, count in zip(("successes", "failures", "errors"), claimed, strict=True):
        if count is not None:
            gathering.check(check_count(f"{label} {name}", count, found[name]))


def _check_named(name: str, claimed: float, mine: list[PlacedRow]) -> ClaimCheck:
    """Compare a claimed weighted mean with the rows' values under their own weights."""
    values, weights = [], []
    for _, _, row in mine:
        value = score_number((row.named_scores or {}).get(name))
        if not row.ran or value is None:
            continue
        given = (row.grading_result and row.grading_result.named_score_weights) or {}
        weight = given.get(name)
        weights.append(1.0 if weight is None else weight)
        values.append(value)
    total = math.fsum(weights)
    share = len(values) / total if total else 0.0
    weighted = [value * weight * share for value, weight in zip(values, weights, strict=True)]
    return check_mean(f"{name} mean", claimed, weighted, len(mine), "rows have no such score")


IMPORTER: Final = make_log_importer(
    "promptfoo",
    "promptfoo evaluations (.json, .jsonl, .yaml, .csv)",
    sniff=is_promptfoo,
    load=_load,
    arms=_read_arms,
    read=_read,
)
