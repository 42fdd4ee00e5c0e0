"""``replay``: recent production inputs again; the answers in production are only a reference.

The baseline answers the same inputs, so its own distance from production shows how much change is
noise. The score is the closeness to production; what counts is how much further from it the
candidate is than the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.core.measurement import Measurement, measured, rate
from gatemark.core.policy import Rule
from gatemark.core.reason import ReasonKind
from gatemark.packs.item_scores import AnswerPair, pair_items, score_baseline_items, score_items
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.arms import (
    estimate_delta_error,
    list_worse_items,
    measure_baseline_score,
    measure_mean_score,
    measure_power,
    measure_smallest_visible_drop,
    measure_suite_drop,
    select_first_answers,
)
from gatemark.packs.suites.slices import make_slice_tables, measure_slices
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport, PackSuite

REPLAYED_ONCE: Final = ReasonKind(
    "replayed_once",
    "every run was replayed once; epochs: 2 would show how often the baseline changes",
)


class ReplayOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A replay suite has no options."""


def make_rules(_spec: SuiteSpec, _options: ReplayOptions) -> tuple[Rule, ...]:
    """Return no rules besides those of every suite."""
    return ()


def examine(evidence: ArmsEvidence, _options: ReplayOptions) -> ArmsReport:
    """Return the change of both arms against production, and the change beyond noise."""
    scope = evidence.spec.id
    candidate = score_items(evidence.candidate)
    baseline = score_baseline_items(evidence.baseline)
    pairs = pair_items(candidate, baseline)
    score = measure_mean_score("score", scope, list(candidate.values()))
    noise = measure_baseline_score(scope, list(baseline.values()))
    numbers: list[Measurement] = [
        _measure_distance("behavioural_delta", scope, score),
        _measure_distance("noise_band", scope, noise),
        *measure_slices(evidence, candidate, pairs),
    ]
    if evidence.baseline is not None:
        numbers.extend(_list_changes(scope, evidence, pairs))
        numbers.append(measure_smallest_visible_drop(scope, pairs, alpha=evidence.alpha))
        numbers.append(measure_power(scope, pairs, margin=evidence.margin, alpha=evidence.alpha))
        numbers.extend(measure_suite_drop(evidence, pairs))
    return ArmsReport(
        score=score,
        baseline_score=noise,
        measurements=tuple(numbers),
        figures=(
            *make_slice_tables(evidence, candidate, baseline),
            *list_worse_items(
                evidence,
                pairs,
                title=f"{scope}: further from production than the baseline",
                expected="production said",
            ),
        ),
        delta_error=estimate_delta_error(pairs),
        pairs=pairs,
    )


def _list_changes(
    scope: str, evidence: ArmsEvidence, pairs: Sequence[AnswerPair]
) -> list[Measurement]:
    """Return how often the arms differ, in verdict and in words, and the baseline from itself.

    Change that does not exceed the latter is noise.
    """
    now, before = (
        select_first_answers(evidence.candidate),
        select_first_answers(evidence.baseline or ()),
    )
    verdicts = [pair.candidate.mean == 1.0 for pair in pairs]
    verdicts_before = [pair.baseline.mean == 1.0 for pair in pairs]
    changed = sum(a != b for a, b in zip(verdicts, verdicts_before, strict=True))
    said = sum(now[pair.id].output != before[pair.id].output for pair in pairs)
    repeats: dict[str, list[object]] = {}
    for answer in evidence.baseline or ():
        repeats.setdefault(answer.id, []).append(answer.output)
    again = [outputs for outputs in repeats.values() if len(outputs) > 1]
    unsteady = sum(any(output != outputs[0] for output in outputs[1:]) for outputs in again)
    found = (
        rate("verdict_delta", changed, len(pairs), direction="lower_is_better"),
        rate("output_delta", said, len(pairs), direction="lower_is_better"),
        rate(
            "baseline_output_delta",
            unsteady,
            len(again),
            direction="lower_is_better",
            empty_reason=REPLAYED_ONCE(),
        ),
    )
    return [msgspec.structs.replace(number, scope=scope) for number in found]


def _measure_distance(name: str, scope: str, closeness: Measurement) -> Measurement:
    if closeness.value is None:
        return msgspec.structs.replace(closeness, name=name, direction="lower_is_better")
    return measured(
        name, 1 - closeness.value, n=closeness.n, direction="lower_is_better", scope=scope
    )


SUITE = PackSuite(
    kind="replay",
    summary="Recent runs again: how far each arm is from what production said, beyond noise.",
    options=ReplayOptions,
    rules=make_rules,
    examine=examine,
    scorer="normalised",
    default_regression="non_inferiority",
    is_paired=True,
)
