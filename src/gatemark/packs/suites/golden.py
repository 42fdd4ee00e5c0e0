"""``golden``: a frozen labelled set with known right answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.core.reason import find_reason
from gatemark.evidence.settings_file import about
from gatemark.packs.item_scores import (
    AnswerPair,
    ItemScore,
    pair_items,
    score_baseline_items,
    score_items,
)
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.arms import (
    estimate_delta_error,
    list_worse_items,
    measure_baseline_score,
    measure_mean_score,
    measure_power,
    measure_smallest_visible_drop,
    measure_suite_drop,
)
from gatemark.packs.suites.slices import make_slice_tables, measure_slices
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport, PackSuite
from gatemark.statistics.proportion import mean_pass_at_k, mean_pass_hat_k
from gatemark.statistics.significance import mcnemar_test


class GoldenOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a golden suite: the k of pass@k and pass^k, for packs with epochs."""

    k: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        about("k of pass@k and pass^k, for suites with epochs."),
    ] = None


def make_rules(spec: SuiteSpec, options: GoldenOptions) -> tuple[Rule, ...]:
    """Return no rules besides those of every suite."""
    if options.k is not None and options.k > spec.repeats:
        raise UsageError(
            f"suite {spec.id}: k must be <= its {spec.repeats} epochs or reruns, got {options.k}"
        )
    return ()


def examine(evidence: ArmsEvidence, options: GoldenOptions) -> ArmsReport:
    """Return accuracy on both arms, the drop between them, and the items that changed."""
    scope = evidence.spec.id
    candidate = score_items(evidence.candidate)
    baseline = score_baseline_items(evidence.baseline)
    pairs = pair_items(candidate, baseline)
    numbers = [
        *_measure_pass_at(scope, list(candidate.values()), options.k),
        *_list_changes(scope, pairs),
        *measure_slices(evidence, candidate, pairs),
    ]
    if evidence.baseline is not None:
        numbers.append(measure_smallest_visible_drop(scope, pairs, alpha=evidence.alpha))
        numbers.append(measure_power(scope, pairs, margin=evidence.margin, alpha=evidence.alpha))
        numbers.extend(measure_suite_drop(evidence, pairs))
    return ArmsReport(
        score=measure_mean_score("score", scope, list(candidate.values())),
        baseline_score=measure_baseline_score(scope, list(baseline.values())),
        measurements=tuple(numbers),
        figures=(
            *make_slice_tables(evidence, candidate, baseline),
            *list_worse_items(
                evidence, pairs, title=f"{scope}: what got worse", expected="expected"
            ),
        ),
        delta_error=estimate_delta_error(pairs),
        pairs=pairs,
    )


def _measure_pass_at(scope: str, items: Sequence[ItemScore], k: int | None) -> list[Measurement]:
    if k is None:
        return []
    counts = [(item.repeats, item.right) for item in items]
    found = []
    for name, estimate in (
        (f"pass_at_{k}", mean_pass_at_k(counts, k)),
        (f"pass_hat_{k}", mean_pass_hat_k(counts, k)),
    ):
        found.append(
            unmeasured(name, find_reason(estimate), direction="higher_is_better", scope=scope)
            if estimate.value is None
            else measured(
                name, estimate.value, n=len(items), direction="higher_is_better", scope=scope
            )
        )
    return found


def _list_changes(scope: str, pairs: Sequence[AnswerPair]) -> list[Measurement]:
    """Return items won and lost, and the exact test between them if scores are binary."""
    if not pairs:
        return []
    lost = sum(pair.baseline.mean > pair.candidate.mean for pair in pairs)
    gained = sum(pair.candidate.mean > pair.baseline.mean for pair in pairs)
    n = len(pairs)
    numbers = [
        measured("lost_count", lost, n=n, direction="lower_is_better", unit="count", scope=scope),
        measured(
            "gained_count", gained, n=n, direction="higher_is_better", unit="count", scope=scope
        ),
    ]
    means = {pair.baseline.mean for pair in pairs} | {pair.candidate.mean for pair in pairs}
    if means <= {0.0, 1.0}:
        found = mcnemar_test(lost, gained)
        numbers.append(measured("mcnemar_p", found.p_value, n=n, direction="neutral", scope=scope))
    return numbers


SUITE = PackSuite(
    kind="golden",
    summary="A frozen labelled set: how many items each arm gets right, and which changed.",
    options=GoldenOptions,
    rules=make_rules,
    examine=examine,
    scorer="exact",
    default_regression="non_inferiority",
    is_paired=True,
)
