"""Compare runs: the numbers of every lane over time, and the differences between two runs.

Both read decision files, not summaries: categories are decided again from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.exams.advisory.decision import AdvisoryDecision
from gatemark.exams.advisory.dry_run.folder import DECISIONS, RUNS, read_decisions
from gatemark.exams.advisory.dry_run.run import advisory_policy
from gatemark.exams.advisory.journey import history_files
from gatemark.exams.advisory.metrics import kind_of
from gatemark.exams.advisory.policy import COMPARABLE, Category, category_of, lane_name
from gatemark.statistics.proportion import wilson

CategoryOf = Callable[[AdvisoryDecision], Category]


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


def run_trend(folder: str, policy: str | None = None) -> RunTrend:
    """Return the numbers of every lane in every run of a folder, in order of time."""
    category = _category_of(policy)
    place = Path(folder) / RUNS
    groups: dict[tuple[str, str], list[AdvisoryDecision]] = {}
    seen: set[str] = set()
    for path in history_files(str(place if place.is_dir() else folder)):
        for _, record in read_decisions(path):
            if record.decision_id.upper() in seen:
                continue
            seen.add(record.decision_id.upper())
            run = record.source.artifact_ref
            key = (_lane(record), run if isinstance(run, str) else path)
            groups.setdefault(key, []).append(record)
    if not groups:
        raise BadInputError(f"{folder}: holds no decision files (.jsonl)")
    lanes: dict[str, list[TrendPoint]] = {}
    for (lane, run), records in groups.items():
        lanes.setdefault(lane, []).append(_point(run, records, category))
    return RunTrend(
        {
            lane: tuple(sorted(points, key=lambda one: (one.began, one.run)))
            for lane, points in sorted(lanes.items())
        }
    )


def run_diff(before: str, after: str, policy: str | None = None) -> RunDiff:
    """Return the differences between two runs: decision files, or folders with one."""
    category = _category_of(policy)
    first, second = _by_lane(before), _by_lane(after)
    return RunDiff(
        before,
        after,
        {
            lane: _lane_diff(first.get(lane, {}), second.get(lane, {}), category)
            for lane in sorted(first.keys() | second.keys())
        },
    )


def _category_of(path: str | None) -> CategoryOf:
    policy = advisory_policy(path)

    def category(record: AdvisoryDecision) -> Category:
        kind = kind_of(record, noted=False, private_text=False)
        return category_of(kind, policy.taxonomy(kind.lane))

    return category


def _lane(record: AdvisoryDecision) -> str:
    return lane_name(record.input_class, record.service.name)


def _models(records: Iterable[AdvisoryDecision]) -> tuple[str, ...]:
    return tuple(sorted({record.service.model or "unnamed" for record in records}))


def _point(run: str, records: Sequence[AdvisoryDecision], category: CategoryOf) -> TrendPoint:
    found = [category(record) for record in records]
    agreed = found.count("agree")
    comparable = sum(one in COMPARABLE for one in found)
    return TrendPoint(
        run=run,
        began=min(record.timestamp for record in records),
        records=len(records),
        agreement_rate=agreed / comparable if comparable else None,
        interval=wilson(agreed, comparable) if comparable else None,
        uncertain_rate=found.count("uncertain") / len(found),
        false_positives=found.count("false_positive"),
        false_negatives=found.count("false_negative"),
        models=_models(records),
    )


Inputs = dict[str, AdvisoryDecision]


def _by_lane(place: str) -> dict[str, Inputs]:
    """Return the records of one run by lane and input; refuse an input that occurs twice."""
    path = Path(place) / DECISIONS if Path(place).is_dir() else Path(place)
    lanes: dict[str, Inputs] = {}
    for _, record in read_decisions(str(path)):
        name = record.source.fixture_id
        if not isinstance(name, str):
            continue
        inputs = lanes.setdefault(_lane(record), {})
        if name in inputs:
            raise BadInputError(
                f"{path}: input {name!r} occurs twice, so that it holds several runs; give the "
                f"decisions.jsonl of one run, as in {RUNS}/ID"
            )
        inputs[name] = record
    if not lanes:
        raise BadInputError(f"{path}: holds no records of inputs")
    return lanes


def _lane_diff(before: Inputs, after: Inputs, category: CategoryOf) -> LaneDiff:
    sorts: dict[str, list[ChangedInput]] = {"lost": [], "gained": [], "changed": [], "same": []}
    for name in sorted(before.keys() & after.keys()):
        one = _changed(name, before[name], after[name], category)
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
        models=(_models(before.values()), _models(after.values())),
    )


def _changed(
    name: str, before: AdvisoryDecision, after: AdvisoryDecision, category: CategoryOf
) -> ChangedInput:
    reference = after.human_or_atlas_decision
    return ChangedInput(
        fixture_id=name,
        expected=_said(reference.label, reference.severity),
        before=_advice(before),
        after=_advice(after),
        before_category=category(before),
        after_category=category(after),
    )


def _advice(record: AdvisoryDecision) -> str:
    given = record.recommendation
    return f"{given.label}/{given.severity} ({record.confidence.bucket})"


def _said(label: object, severity: object) -> str | None:
    if not isinstance(label, str):
        return None
    return f"{label}/{severity}" if isinstance(severity, str) else label
