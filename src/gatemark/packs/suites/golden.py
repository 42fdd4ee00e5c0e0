"""``golden``: a frozen labelled set with known right answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.evidence.settings_file import about
from gatemark.packs.answers import AnswerPair, ItemScore, baseline_per_item, paired, per_item
from gatemark.packs.pack import SuiteSpec
from gatemark.packs.suites.arms import (
    baseline_score,
    delta_error,
    mean_score,
    power,
    smallest_visible_drop,
    suite_drop,
    worse_items,
)
from gatemark.packs.suites.slices import slice_numbers, slice_tables
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport, PackSuite
from gatemark.statistics.proportion import mean_pass_at_k, mean_pass_hat_k
from gatemark.statistics.significance import mcnemar


class GoldenOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a golden suite: the k of pass@k and pass^k, for packs with epochs."""

    k: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        about("k of pass@k and pass^k, for suites with epochs."),
    ] = None


def rules(spec: SuiteSpec, options: GoldenOptions) -> tuple[Rule, ...]:
    """Return no rules besides those of every suite."""
    if options.k is not None and options.k > spec.repeats:
        raise UsageError(
            f"suite {spec.id}: k must be <= its {spec.repeats} epochs or reruns, got {options.k}"
        )
    return ()


def examine(evidence: ArmsEvidence, options: GoldenOptions) -> ArmsReport:
    """Return accuracy on both arms, the drop between them, and the items that changed."""
    lane = evidence.spec.id
    candidate = per_item(evidence.candidate)
    baseline = baseline_per_item(evidence.baseline)
    pairs = paired(candidate, baseline)
    numbers = [
        *_pass_at(lane, list(candidate.values()), options.k),
        *_changes(lane, pairs),
        *slice_numbers(evidence, candidate, pairs),
    ]
    if evidence.baseline is not None:
        numbers.append(smallest_visible_drop(lane, pairs, alpha=evidence.alpha))
        numbers.append(power(lane, pairs, margin=evidence.margin, alpha=evidence.alpha))
        numbers.extend(suite_drop(evidence, pairs))
    return ArmsReport(
        score=mean_score("score", lane, list(candidate.values())),
        baseline_score=baseline_score(lane, list(baseline.values())),
        measurements=tuple(numbers),
        figures=(
            *slice_tables(evidence, candidate, baseline),
            *worse_items(evidence, pairs, title=f"{lane}: what got worse", expected="expected"),
        ),
        delta_error=delta_error(pairs),
        pairs=pairs,
    )


def _pass_at(lane: str, items: Sequence[ItemScore], k: int | None) -> list[Measurement]:
    if k is None:
        return []
    counts = [(item.repeats, item.right) for item in items]
    found = []
    for name, estimate in (
        (f"pass_at_{k}", mean_pass_at_k(counts, k)),
        (f"pass_hat_{k}", mean_pass_hat_k(counts, k)),
    ):
        found.append(
            unmeasured(name, str(estimate.reason), direction="higher_is_better", lane=lane)
            if estimate.value is None
            else measured(
                name, estimate.value, n=len(items), direction="higher_is_better", lane=lane
            )
        )
    return found


def _changes(lane: str, pairs: Sequence[AnswerPair]) -> list[Measurement]:
    """Return items won and lost, and the exact test between them if scores are binary."""
    if not pairs:
        return []
    lost = sum(pair.baseline.mean > pair.candidate.mean for pair in pairs)
    gained = sum(pair.candidate.mean > pair.baseline.mean for pair in pairs)
    n = len(pairs)
    numbers = [
        measured("lost_count", lost, n=n, direction="lower_is_better", unit="count", lane=lane),
        measured(
            "gained_count", gained, n=n, direction="higher_is_better", unit="count", lane=lane
        ),
    ]
    means = {pair.baseline.mean for pair in pairs} | {pair.candidate.mean for pair in pairs}
    if means <= {0.0, 1.0}:
        found = mcnemar(lost, gained)
        numbers.append(measured("mcnemar_p", found.p_value, n=n, direction="neutral", lane=lane))
    return numbers


SUITE = PackSuite(
    kind="golden",
    summary="A frozen labelled set: how many items each arm gets right, and which changed.",
    options=GoldenOptions,
    rules=rules,
    examine=examine,
    scorer="exact",
    default_regression="non_inferiority",
    is_paired=True,
)
