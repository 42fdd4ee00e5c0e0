"""Compare runs: the numbers of every lane over time, and the differences between two runs.

Both read decision files, not summaries: categories are decided again from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.inputs import normalize_id
from gatemark.plugins.advisory.category import COMPARABLE, Category, categorize, make_category_key
from gatemark.plugins.advisory.dry_run.ask import open_policy
from gatemark.plugins.advisory.dry_run.folder import (
    DECISIONS_FILE,
    RUNS_FOLDER,
    read_advisory_decisions,
)
from gatemark.plugins.advisory.policy import make_lane_name
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.plugins.advisory.score import find_history_files
from gatemark.statistics.proportion import wilson_interval

Categorizer = Callable[[AdvisoryDecision], Category]


class TrendPoint(msgspec.Struct, frozen=True):
    """One lane in one run. A rate without records is null; ``interval`` is that of agreement."""

    run: str
    began: str
    records: int
    agreement_rate: float | None
    interval: tuple[float, float] | None
    uncertain_rate: float
    false_positives: int
    false_negatives: int
    models: tuple[str, ...]


class RunTrend(msgspec.Struct, frozen=True):
    """The runs of every lane, oldest first."""

    lanes: dict[str, tuple[TrendPoint, ...]]


class ChangedInput(msgspec.Struct, frozen=True):
    """One input whose recommendation or category differs between two runs."""

    fixture_id: str
    expected: str | None
    before: str
    after: str
    before_category: Category
    after_category: Category


class LaneDiff(msgspec.Struct, frozen=True):
    """The differences in one lane.

    ``lost`` agreed before but not after, ``gained`` the reverse; ``changed`` are the rest.
    """

    lost: tuple[ChangedInput, ...]
    gained: tuple[ChangedInput, ...]
    changed: tuple[ChangedInput, ...]
    same: int
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    models: tuple[tuple[str, ...], tuple[str, ...]]


class RunDiff(msgspec.Struct, frozen=True):
    """The differences between two runs, by lane."""

    before: str
    after: str
    lanes: dict[str, LaneDiff]


def derive_trend(folder: str, policy: str | None = None) -> RunTrend:
    """Return the numbers of every lane in every run of a folder, in order of time."""
    category = _make_categorizer(policy)
    place = Path(folder) / RUNS_FOLDER
    groups: dict[tuple[str, str], list[AdvisoryDecision]] = {}
    seen: set[str] = set()
    for path in find_history_files(str(place if place.is_dir() else folder)):
        for _, record in read_advisory_decisions(path):
            name = normalize_id(record.decision_id)
            if name in seen:
                continue
            seen.add(name)
            run = record.source.artifact_ref
            key = (_name_lane(record), run if isinstance(run, str) else path)
            groups.setdefault(key, []).append(record)
    if not groups:
        raise BadInputError(f"{folder}: holds no decision files (.jsonl)")
    lanes: dict[str, list[TrendPoint]] = {}
    for (lane, run), records in groups.items():
        lanes.setdefault(lane, []).append(_make_point(run, records, category))
    return RunTrend(
        {
            lane: tuple(sorted(points, key=lambda one: (one.began, one.run)))
            for lane, points in sorted(lanes.items())
        }
    )


def compare_runs(before: str, after: str, policy: str | None = None) -> RunDiff:
    """Return the differences between two runs: decision files, or folders with one."""
    category = _make_categorizer(policy)
    first, second = _group_by_lane(before), _group_by_lane(after)
    return RunDiff(
        before,
        after,
        {
            lane: _compare_lane(first.get(lane, {}), second.get(lane, {}), category)
            for lane in sorted(first.keys() | second.keys())
        },
    )


def _make_categorizer(path: str | None) -> Categorizer:
    policy = open_policy(path)

    def category(record: AdvisoryDecision) -> Category:
        compared = make_category_key(
            record.source,
            record.service.mode,
            record.recommendation,
            record.confidence.bucket,
            record.human_or_atlas_decision,
        )
        return categorize(compared, policy.taxonomy(_name_lane(record)))

    return category


def _name_lane(record: AdvisoryDecision) -> str:
    return make_lane_name(record.input_class, record.service.name)


def _list_models(records: Iterable[AdvisoryDecision]) -> tuple[str, ...]:
    return tuple(sorted({record.service.model or "unnamed" for record in records}))


def _make_point(run: str, records: Sequence[AdvisoryDecision], category: Categorizer) -> TrendPoint:
    found = [category(record) for record in records]
    agreed = found.count("agree")
    comparable = sum(one in COMPARABLE for one in found)
    return TrendPoint(
        run=run,
        began=min(record.timestamp for record in records),
        records=len(records),
        agreement_rate=agreed / comparable if comparable else None,
        interval=wilson_interval(agreed, comparable) if comparable else None,
        uncertain_rate=found.count("uncertain") / len(found),
        false_positives=found.count("false_positive"),
        false_negatives=found.count("false_negative"),
        models=_list_models(records),
    )


Inputs = dict[str, AdvisoryDecision]


def _group_by_lane(place: str) -> dict[str, Inputs]:
    """Return the records of one run by lane and input; refuse an input that occurs twice."""
    path = Path(place) / DECISIONS_FILE if Path(place).is_dir() else Path(place)
    lanes: dict[str, Inputs] = {}
    for _, record in read_advisory_decisions(str(path)):
        name = record.source.fixture_id
        if not isinstance(name, str):
            continue
        inputs = lanes.setdefault(_name_lane(record), {})
        if name in inputs:
            raise BadInputError(
                f"{path}: input {name!r} occurs twice, so that it holds several runs; give the "
                f"decisions.jsonl of one run, as in {RUNS_FOLDER}/ID"
            )
        inputs[name] = record
    if not lanes:
        raise BadInputError(f"{path}: holds no records of inputs")
    return lanes


def _compare_lane(before: Inputs, after: Inputs, category: Categorizer) -> LaneDiff:
    sorts: dict[str, list[ChangedInput]] = {"lost": [], "gained": [], "changed": [], "same": []}
    for name in sorted(before.keys() & after.keys()):
        one = _compare_input(name, before[name], after[name], category)
        agreed, agrees = one.before_category == "agree", one.after_category == "agree"
        if (one.before, one.before_category) == (one.after, one.after_category):
            sorts["same"].append(one)
        elif agreed != agrees:
            sorts["lost" if agreed else "gained"].append(one)
        else:
            sorts["changed"].append(one)
    return LaneDiff(
        lost=tuple(sorts["lost"]),
        gained=tuple(sorts["gained"]),
        changed=tuple(sorts["changed"]),
        same=len(sorts["same"]),
        only_before=tuple(sorted(before.keys() - after.keys())),
        only_after=tuple(sorted(after.keys() - before.keys())),
        models=(_list_models(before.values()), _list_models(after.values())),
    )


def _compare_input(
    name: str, before: AdvisoryDecision, after: AdvisoryDecision, category: Categorizer
) -> ChangedInput:
    reference = after.human_or_atlas_decision
    return ChangedInput(
        fixture_id=name,
        expected=_describe_reference(reference.label, reference.severity),
        before=_describe_advice(before),
        after=_describe_advice(after),
        before_category=category(before),
        after_category=category(after),
    )


def _describe_advice(record: AdvisoryDecision) -> str:
    given = record.recommendation
    return f"{given.label}/{given.severity} ({record.confidence.bucket})"


def _describe_reference(label: object, severity: object) -> str | None:
    if not isinstance(label, str):
        return None
    return f"{label}/{severity}" if isinstance(severity, str) else label
