"""Judge a comparison. The steps are explained in ``docs/explanation/compare.md``.

(1) Both sides must be comparable: two runs, the same items, scored alike. One file for both, other
settings of the scorer, an unknown direction, different task or item hashes, different targets,
different inputs where ids are positions, or no shared item with a score make the verdict
inconclusive. So does a log that contradicts its own aggregates.
(2) A worse candidate fails: without a margin if the drop is significant, with one if the whole
drop, down to its lower bound, is above the margin.
(3) The evidence must be complete: an incomplete run, an errored, unscored, unpaired or refused
sample, or an item without its cluster makes the verdict inconclusive.
(4) A pass must be shown: the drop stays within the margin (default 0.05) even at its bound, or,
without a margin, the candidate is significantly better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.fold import AnyMeasure
from gatemark.core.policy import Outcome
from gatemark.core.registry import Registry
from gatemark.samples.pairing import SamplePairing, name_samples
from gatemark.samples.read_samples import DOC_HASH, TASK_HASH, Key, SampleSet
from gatemark.samples.score_direction import Direction
from gatemark.statistics.clustered_means import (
    RANGE_TOLERANCE,
    PooledDrop,
    Stratum,
    cluster_totals,
    drop_of_counts,
    pooled_drop,
)
from gatemark.statistics.paired.comparison import MAX_DRAWN_CELLS, Comparison
from gatemark.statistics.paired.noninferiority import (
    POINT_TOLERANCE,
    NonInferiority,
    non_inferiority_by_score,
    non_inferiority_of_deltas,
)
from gatemark.statistics.paired.permutation import sign_flip
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES

if TYPE_CHECKING:
    from gatemark.samples.measure import PairedTable

UNSTATED_MARGIN: Final = 0.05
DEFAULT_SEED: Final = 5
MIN_DRAWS: Final = 199
_FEW: Final = 5
HIGHER: Final = Direction("higher")


class CompareSettings(msgspec.Struct, frozen=True):
    """The settings that determine the verdict; all of them are in the document.

    ``largest_drop`` declares how far the score of one item can move. ``lower_is_better`` and
    ``higher_is_better`` name scores whose direction is stated.
    """

    alpha: float = 0.05
    margin: float | None = None
    seed: int = DEFAULT_SEED
    resamples: int = DEFAULT_RESAMPLES
    largest_drop: float | None = None
    lower_is_better: tuple[str, ...] = ()
    higher_is_better: tuple[str, ...] = ()


class Wording(NamedTuple):
    """The words for a score: what gets worse is a drop, or a rise where lower is better."""

    pairing: SamplePairing
    direction: Direction

    @property
    def drop(self) -> str:
        """The word for a change to the worse."""
        return "rise" if self.direction.is_lower else "drop"

    def format_numbers(self, found: Comparison, drop: NonInferiority | None) -> str:
        """Return the change, as the log counts it, and its bound."""
        is_lower = self.direction.is_lower
        change = 0.0 - found.delta if is_lower else found.delta
        how = ", lower is better" if is_lower else ""
        bound = (
            "" if drop is None or drop.upper is None else f", {self.drop} at most {drop.upper:.4g}"
        )
        return f"{self.pairing.score} {change:+.4g}{how}{bound} (n={self.pairing.scored_count})"


class ComparisonVerdict(msgspec.Struct, frozen=True):
    """A comparison and its verdict; ``state`` is that of the paired measure."""

    n: int
    state: Any
    comparison: Comparison | None
    permutation_p_value: float | None
    non_inferiority: NonInferiority | None
    outcome: Outcome
    reason: str
    blockers: tuple[str, ...]
    caveats: tuple[str, ...]


def judge_comparison(
    known: Registry[AnyMeasure],
    pairing: SamplePairing,
    base: SampleSet,
    cand: SampleSet,
    settings: CompareSettings,
    *,
    clustered: bool,
    direction: Direction = HIGHER,
    incomparable: Sequence[str] = (),
) -> ComparisonVerdict:
    """Measure the paired items and judge them.

    Scores are turned so that higher is better; ``direction`` says how they were. ``incomparable``
    are reasons why the scores of both sides say nothing about each other.
    """
    measure = known.get("paired")
    # Imported here, so that other commands work without this plugin.
    from gatemark.samples import measure as paired  # noqa: PLC0415

    rows = [
        (item.base, item.cand, (item.cluster or f"\0{item.id}") if clustered else None)
        for item in pairing.items
    ]
    state = measure.step(measure.zero(), rows)
    found = paired.compare_paired(
        state, seed=settings.seed, resamples=settings.resamples, alpha=settings.alpha
    )
    table = paired.build_paired_table(state)
    drop = _require_evidence_beyond(_judge_non_inferiority(table, pairing, settings), settings)
    outcome, reasons = _decide(
        pairing,
        base,
        cand,
        found,
        drop=drop,
        settings=settings,
        wording=Wording(pairing, direction),
        incomparable=incomparable,
    )
    return ComparisonVerdict(
        n=table.n,
        state=state,
        comparison=found,
        permutation_p_value=_compute_permutation_p(table, found, settings),
        non_inferiority=drop,
        outcome=outcome,
        reason=reasons[0],
        blockers=() if outcome == "pass" else tuple(reasons),
        caveats=(*(found.caveats if found else ()), *_find_exceeded_range(table, settings)),
    )


def _judge_non_inferiority(
    table: PairedTable, pairing: SamplePairing, settings: CompareSettings
) -> NonInferiority | None:
    if not pairing.is_bounded or table.n == 0:
        return None
    margin = UNSTATED_MARGIN if settings.margin is None else settings.margin
    if table.is_binary or settings.largest_drop is not None:
        return non_inferiority_by_score(
            _measure_drop(table, settings), margin=margin, alpha=settings.alpha
        )
    return non_inferiority_of_deltas(
        table.deltas,
        np.random.default_rng(settings.seed),
        margin=margin,
        alpha=settings.alpha,
        clusters=table.clusters,
        draws=max(MIN_DRAWS, min(settings.resamples, MAX_DRAWN_CELLS // table.n)),
    )


def _measure_drop(table: PairedTable, settings: CompareSettings) -> PooledDrop:
    if table.clusters is None and settings.largest_drop is None:
        return drop_of_counts(table.state.lost, table.state.gained, table.n)
    units = None if table.clusters is None else [str(name) for name in table.clusters]
    stratum = Stratum(1.0, -table.deltas, units, settings.largest_drop or 1.0)
    return pooled_drop((stratum,))


def _find_exceeded_range(table: PairedTable, settings: CompareSettings) -> tuple[str, ...]:
    """Return a caveat if items contradict the declared range, which is then not used."""
    declared = settings.largest_drop
    if declared is None or table.n == 0:
        return ()
    if float(np.abs(table.deltas).max()) <= declared + RANGE_TOLERANCE:
        return ()
    return (f"an item moved by more than largest_drop {declared:g}, so 1 is used instead",)


def _require_evidence_beyond(
    drop: NonInferiority | None, settings: CompareSettings
) -> NonInferiority | None:
    """Return the drop; it fails only if its lower bound is above the margin, too."""
    if drop is None or drop.outcome != "fail" or settings.margin is None:
        return drop
    lower = 0.0 if drop.lower is None else drop.lower
    if lower > drop.margin + POINT_TOLERANCE:
        return drop
    reason = (
        f"drop {drop.drop:.4g} [{lower:.4g}, {drop.upper:.4g}] is above the margin "
        f"{drop.margin:g}, but not at its lower bound (n={drop.n})"
    )
    return msgspec.structs.replace(drop, outcome="inconclusive", reason=reason)


def _compute_permutation_p(
    table: PairedTable, found: Comparison | None, settings: CompareSettings
) -> float | None:
    """Return the sign-flip p-value; clusters flip together. For binary scores it is McNemar's."""
    if found is None:
        return None
    if table.clusters is None:
        return found.p_value
    sums, _ = cluster_totals(table.deltas, table.clusters)
    rng = np.random.default_rng(settings.seed)
    return sign_flip(sums, rng, resamples=settings.resamples).p_value


def _decide(
    pairing: SamplePairing,
    base: SampleSet,
    cand: SampleSet,
    found: Comparison | None,
    *,
    drop: NonInferiority | None,
    settings: CompareSettings,
    wording: Wording,
    incomparable: Sequence[str],
) -> tuple[Outcome, list[str]]:
    """Return the outcome and its reasons, the decisive one first."""
    # Step 1.
    strange = [*incomparable, *_find_incomparable(pairing, base, cand)]
    if found is None:
        strange.append(f"no item is scored by {pairing.score} on both sides")
    lost = list(_find_incomplete(pairing, base, cand))
    if found is None or strange:
        return "inconclusive", [*strange, *lost]

    # Step 2.
    numbers = wording.format_numbers(found, drop)
    worse = _explain_worse(found, drop, settings)
    if worse is not None:
        return "fail", [f"{numbers}: {worse}", *lost]

    # Step 3. Also report what is not shown yet: complete evidence may not settle it.
    shown, why = _explain_pass(found, drop, settings, wording)
    if lost:
        return "inconclusive", lost if shown else [*lost, f"{numbers}: {why}"]

    # Step 4.
    return "pass" if shown else "inconclusive", [f"{numbers}: {why}"]


def _find_incomparable(pairing: SamplePairing, base: SampleSet, cand: SampleSet) -> Iterator[str]:
    if base.task_hashes and cand.task_hashes and base.task_hashes != cand.task_hashes:
        yield (
            f"the sides ran different tasks: {TASK_HASH} is "
            f"{_list_few(base.task_hashes)} in the base "
            f"and {_list_few(cand.task_hashes)} in the candidate"
        )
    for side, samples in (("base", base), ("candidate", cand)):
        for reason in samples.contradictions:
            yield f"the {side} contradicts itself: {reason}"
    if not base.is_like(cand):
        return
    names = [DOC_HASH, "target"]
    if (base.by_position or cand.by_position) and not (base.contents[DOC_HASH]):
        names.append("input")
    for name in names:
        keys = pairing.different[name]
        if keys:
            yield f"{len(keys)} paired samples have another {name}: {_list_few_samples(keys)}"


def _find_incomplete(pairing: SamplePairing, base: SampleSet, cand: SampleSet) -> Iterator[str]:
    sides = (("base", base, 0), ("candidate", cand, 1))
    for side, samples, place in sides:
        for keys, what in (
            (sorted(samples.errors), "errored"),
            (pairing.unscored[place], f"are not scored by {pairing.score}"),
            (pairing.unpaired[place], "are not on the other side"),
        ):
            if keys:
                total = len(samples.keys)
                yield f"{len(keys)} of {total} {side} samples {what}: {_list_few_samples(keys)}"
        for reason in samples.partial:
            yield f"the {side} is incomplete: {reason}"
        if samples.refused:
            yield f"{len(samples.refused)} {side} rows could not be read: {samples.refused[0]}"
    if pairing.unchecked_copies:
        yield (
            f"{len(pairing.unchecked_copies)} ids repeat the input of another id by what the "
            f"candidate says, and the base has no inputs: {_list_few(pairing.unchecked_copies)}"
        )
    if pairing.unasked:
        yield (
            f"{len(pairing.unasked)} items have no input while others have one, so they may be "
            f"copies: {_list_few(pairing.unasked)}; give every sample its input"
        )
    if pairing.clusterless:
        names = _list_few(pairing.clusterless)
        yield f"{len(pairing.clusterless)} items have no cluster: {names}"


def _explain_worse(
    found: Comparison, drop: NonInferiority | None, settings: CompareSettings
) -> str | None:
    """Return why the candidate is worse, or None if that is not shown."""
    if settings.margin is not None and drop is not None:
        if drop.outcome != "fail":
            return None
        return f"worse by more than the margin {drop.margin:g}, even at its lower bound"
    if found.delta >= 0:
        return None
    if found.p_value is not None:
        if found.p_value < settings.alpha:
            return f"significantly worse, p {found.p_value:.4g} < {settings.alpha:g}"
        return None
    if drop is not None and drop.lower is not None and drop.lower > 0:
        return "worse in every cluster alike, which so many cannot be by chance"
    return None


def _explain_pass(
    found: Comparison, drop: NonInferiority | None, settings: CompareSettings, wording: Wording
) -> tuple[bool, str]:
    """Return whether the candidate is shown to be good enough, and why."""
    if drop is not None and drop.outcome == "pass":
        return (
            True,
            f"no worse by more than {drop.margin:g} even at the bound of the {wording.drop}",
        )
    better = found.p_value is not None and found.p_value < settings.alpha and found.delta > 0
    if better and settings.margin is None:
        return True, f"significantly better, p {found.p_value:.4g} < {settings.alpha:g}"
    n = wording.pairing.scored_count
    reach = (
        "" if found.mde is None else f"; {_format_reach(n, found.mde, bounded=drop is not None)}"
    )
    if drop is None:
        return False, f"neither better nor worse is shown{reach}"
    return (
        False,
        f"a {wording.drop} of more than {drop.margin:g} is neither shown nor ruled out{reach}",
    )


def _list_few_samples(keys: Iterable[Key]) -> str:
    return _list_few(name_samples(keys))


def _list_few(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _FEW} more" if len(listed) > _FEW else ""
    return ", ".join(listed[:_FEW]) + more


def _format_reach(n: int, mde: float, *, bounded: bool) -> str:
    """Return the difference that this many items can detect; for bounded scores it is at most 1."""
    items = f"{n} item" if n == 1 else f"{n} items"
    return (
        f"{items} cannot show any" if bounded and mde > 1 else f"{items} can show {mde:.3g} or more"
    )
