"""The guard-overhead exam: pair the windows of two arms, measure quality, time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.measurement import Evidence, Measurement, measured, measured_count, unmeasured
from gatemark.core.policy import Policy, Verdict
from gatemark.core.reason import Reason, ReasonKind, find_reason
from gatemark.evidence.exam import Exam, ExamReport, VerdictNotes
from gatemark.plugins.overhead.advice import find_remedies, word_reasons
from gatemark.plugins.overhead.arms import ArmFile, Defect, Role, make_defect, word_headline
from gatemark.plugins.overhead.build_report import build_report
from gatemark.plugins.overhead.costs import Costs, digest_schedule
from gatemark.plugins.overhead.document import ArmPart, CostsPart, WorstWindow
from gatemark.plugins.overhead.facts import ArmsHeader, Facts
from gatemark.plugins.overhead.measure import (
    BARE,
    GUARDED,
    NO_WINDOWS,
    OVERHEAD,
    Basis,
    Quality,
    leave_quality_unmeasured,
    measure_quality,
)
from gatemark.plugins.overhead.measure_costs import (
    find_restore_defects,
    leave_costs_unmeasured,
    measure_costs,
)
from gatemark.plugins.overhead.options import OverheadOptions, is_loosened, resolve_settings
from gatemark.plugins.overhead.pairing import WindowPairing, pair_arms
from gatemark.plugins.overhead.policy import DEFECTS, INSTALL, build_policy
from gatemark.plugins.overhead.ratio_interval import Resampling
from gatemark.plugins.overhead.settings import PROFILE, is_looser_profile
from gatemark.plugins.overhead.views import draw_figures
from gatemark.plugins.overhead.window_numbers import (
    SECOND_RUNS,
    SecondRun,
    WindowPair,
    count_amounts,
    measure_changes,
    measure_floor,
)
from gatemark.scorers.scorer import truncate

WORST_WINDOWS: Final = 10
_STATED: Final = ("metric_kind", "seeds", "device", "snapshot_hash", "plan", "guards")
UNPAIRED: Final = ReasonKind("unpaired", "the arms do not pair")
FAILED_CHECK: Final = ReasonKind("failed_check", "{check}: {windows} windows; {more} more checks")
NO_INSTALL_TIME: Final = ReasonKind("no_install_time", "no install time was recorded")
NO_ARMS: Final = ReasonKind("no_arms", "no arms")


class OverheadExamState(msgspec.Struct):
    """Rows by shard, because their order matters, and the header, which one state has."""

    shard: int
    rows: dict[int, list[WindowPair]] = {}
    header: ArmsHeader = ArmsHeader()


class ComparedArms(NamedTuple):
    """The state to start from, the rows to fold, and the pairing."""

    state: OverheadExamState
    rows: Sequence[WindowPair]
    pairing: WindowPairing


class OverheadExam(Exam[OverheadExamState]):
    """Compare quality, latency and memory of a guarded arm with a bare one."""

    schema = "gatemark.arm/1"
    form = "window_loss"
    state = OverheadExamState

    def __init__(self, options: OverheadOptions) -> None:
        self.options = options
        self.settings = resolve_settings(options)

    def begin(
        self,
        arms: Mapping[Role, ArmFile],
        costs: Costs | None = None,
        costs_file: CostsPart | None = None,
    ) -> ComparedArms:
        """Pair the arms; there are no rows unless every check of the pairing passes."""
        bare, guarded = arms["bare"], arms["guarded"]
        pairing = pair_arms(bare, guarded)
        if bare.meta is not None:
            restored = tuple(find_restore_defects(costs, bare.meta.snapshot_hash))
            pairing = pairing._replace(defects=(*pairing.defects, *restored))
        again: dict[SecondRun, tuple[Defect, ...]] = {
            role: pair_arms(bare, arms[role], role).defects
            for role in SECOND_RUNS
            if role in arms and not pairing.defects
        }
        resampling = self._make_resampling(bare.meta.seeds.bootstrap if bare.meta else None)
        header = ArmsHeader(
            kind=None if bare.meta is None else bare.meta.metric_kind,
            arms={role: _describe_arm(arm) for role, arm in arms.items()},
            defects=pairing.defects,
            second_defects=again,
            expected=pairing.expected_count,
            schedule=digest_schedule(bare),
            spent=leave_costs_unmeasured(UNPAIRED())
            if pairing.defects
            else measure_costs(costs, bare, resampling),
            costs=costs_file,
        )
        rows: Sequence[WindowPair] = ()
        if not pairing.defects:
            usable = {role: arms[role] for role, found in again.items() if not found}
            rows = _pair_rows(bare, guarded, usable)
        return ComparedArms(OverheadExamState(shard=-1, header=header), rows, pairing)

    def title(self, report: ExamReport) -> str:
        """Return the overhead in one line."""
        overhead, bare, guarded = (report.by_name[name] for name in (OVERHEAD, BARE, GUARDED))
        if overhead.value is None or bare.value is None or guarded.value is None:
            defects = report.facts["overhead"].defects
            why = word_headline(defects, is_brief=True) if defects else overhead.reason
            return truncate(f"guard overhead not measured: {why}")
        unit = "%" if bare.unit == "perplexity" else "points"
        fields = [override.field for override in self.options.overrides]
        loosened = [field for field in fields if is_loosened(self.options, field)]
        if PROFILE not in fields and is_looser_profile(self.options.profile):
            loosened.insert(0, PROFILE)
        waived = f"; loosened by hand: {', '.join(loosened)}" if loosened else ""
        return truncate(
            f"guard overhead {overhead.value * 100:+.3f} {unit} "
            f"(budget {self.settings.budget * 100:g} {unit}{waived}): "
            f"{bare.unit} {bare.value:.5g} to {guarded.value:.5g}"
        )

    def zero(self, shard: int) -> OverheadExamState:
        return OverheadExamState(shard=shard)

    def step(self, state: OverheadExamState, batch: Sequence[WindowPair]) -> OverheadExamState:
        state.rows.setdefault(state.shard, []).extend(batch)
        return state

    def merge(self, left: OverheadExamState, right: OverheadExamState) -> OverheadExamState:
        return OverheadExamState(
            shard=min(left.shard, right.shard),
            rows={**left.rows, **right.rows},
            header=left.header if left.header.arms else right.header,
        )

    def policy(self) -> Policy:
        return build_policy(self.options)

    def finish(self, state: OverheadExamState) -> ExamReport:
        rows = [row for shard in sorted(state.rows) for row in state.rows[shard]]
        header = state.header
        bare = header.arms.get("bare")
        seeds = bare.seeds if bare else None
        resampling = self._make_resampling(seeds["bootstrap"] if seeds else None)
        quality = self._measure_quality(rows, header, resampling)
        numbers = [
            *self._add_caveats(quality, bare),
            _count_defects(header, len(rows)),
            *header.spent.measurements,
        ]
        if self.settings.install_budget is not None and numbers[-1].name != INSTALL:
            numbers.append(
                unmeasured(INSTALL, NO_INSTALL_TIME(), direction="lower_is_better", unit="ms")
            )
        numbers.extend(measure_changes(rows, self.settings))
        numbers.extend(count_amounts(rows, self.settings))
        second_runs = {
            role: measure_floor(role, rows, header.second_defects.get(role, ()), resampling)
            for role in SECOND_RUNS
            if getattr(self.options, role)
        }
        numbers.extend(floor for floor, _ in second_runs.values())
        facts = Facts(
            **msgspec.structs.asdict(header)
            | {"defects": _list_defects(header, quality, len(rows))},
            basis=rows[0].basis if rows else None,
            windows=len(rows),
            weight=int(sum(row.weight for row in rows)),
            worst=_find_worst(rows, quality),
            resampling=resampling,
            second_runs=second_runs,
        )
        return ExamReport(
            measurements=tuple(numbers),
            figures=draw_figures(facts, numbers, self.options, quality.found),
            attachments={},
            facts={"overhead": facts},
            score=_score_overhead(numbers[0]),
        )

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        return build_report(
            self.options,
            self.policy(),
            report,
            evidence=evidence,
            verdict=verdict,
            remedies=self._find_remedies(report, verdict),
        )

    def reasons(self, report: ExamReport, verdict: Verdict) -> dict[str, str]:
        """Return plain words for the rules that do not hold."""
        return word_reasons(self.options, report.facts["overhead"], report.by_name, verdict)

    def closing(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> VerdictNotes:
        """Return what to do about a verdict that is not a pass."""
        del evidence
        found = self._find_remedies(report, verdict)
        return VerdictNotes(caveats=tuple(f"next: {text}" for text in found))

    def _find_remedies(self, report: ExamReport, verdict: Verdict) -> tuple[str, ...]:
        return find_remedies(self.options, report.facts["overhead"], report.by_name, verdict)

    def _make_resampling(self, seed: int | None) -> Resampling:
        return Resampling(seed or 0, self.settings.level, self.settings.resamples)

    def _measure_quality(
        self, rows: Sequence[WindowPair], header: ArmsHeader, resampling: Resampling
    ) -> Quality:
        if header.defects:
            reason = _word_failed_checks(header.defects)
            return Quality(leave_quality_unmeasured(reason, UNPAIRED()), None)
        if not rows:
            return Quality(leave_quality_unmeasured(NO_WINDOWS()), None)
        weights = np.array([row.weight for row in rows])
        bare = np.array([row.bare for row in rows])
        guarded = np.array([row.guarded for row in rows])
        return measure_quality(rows[0].basis, weights, bare, guarded, resampling)

    def _add_caveats(self, quality: Quality, bare: ArmPart | None) -> list[Measurement]:
        """Return the numbers, with caveats on the overhead."""
        first, *others = quality.measurements
        found = quality.found
        if found is None:
            return [first, *others]
        caveats = list(first.caveats)
        budget = self.settings.budget
        if bare is not None:
            caveats.extend(_list_caveats(bare))
        interval = found.interval
        if self.settings.mode == "point" and interval and interval.low < budget < interval.high:
            caveats.append(
                f"the budget {budget:g} lies inside the interval "
                f"[{interval.low:.4g}, {interval.high:.4g}]; the point alone decides"
            )
        if found.detectable is not None and found.detectable > budget:
            caveats.append(
                f"so many windows show an overhead from {found.detectable:.3g} up; "
                f"the budget is {budget:g}"
            )
        return [msgspec.structs.replace(first, caveats=tuple(caveats)), *others]


def _word_failed_checks(defects: Sequence[Defect]) -> Reason:
    first = defects[0]
    return FAILED_CHECK.word(
        word_headline(defects), check=first.check, windows=first.count, more=len(defects) - 1
    )


def _list_caveats(bare: ArmPart) -> list[str]:
    """Return caveats about windows that are not independent or cannot be repeated."""
    reasons = []
    if bare.plan is not None and bare.plan["stride"] < bare.plan["seq_len"]:
        reasons.append("windows overlap, so the interval is narrower than it should be")
    if bare.seeds is not None and set(bare.seeds.values()) == {None}:
        reasons.append("no arm names a seed, so nobody can run this again")
    return reasons


def _pair_rows(
    bare: ArmFile, guarded: ArmFile, again: Mapping[SecondRun, ArmFile]
) -> list[WindowPair]:
    is_accuracy = bare.meta is not None and bare.meta.metric_kind == "accuracy"
    basis: Basis = "count" if is_accuracy else "loss"
    missing = [None] * len(bare.ids)
    second = [again[role].values if role in again else missing for role in SECOND_RUNS]
    columns = (bare.ids, bare.weights, bare.values, guarded.values, *second)
    return [WindowPair(basis, *row) for row in zip(*columns, strict=True)]


def _describe_arm(arm: ArmFile) -> ArmPart:
    stated: dict[str, object] = dict.fromkeys(_STATED)
    if arm.meta is not None:
        stated |= {k: v for k, v in msgspec.to_builtins(arm.meta).items() if k in _STATED}
    part = {"file": arm.label, "digest": arm.digest, "windows": len(arm.ids), **stated}
    return msgspec.convert(part, ArmPart)


def _list_defects(header: ArmsHeader, quality: Quality, windows: int) -> tuple[Defect, ...]:
    """Return every defect, in the order of the checks."""
    found = (*header.defects, *chain.from_iterable(header.second_defects.values()))
    if windows and quality.found is None:
        found = (*found, make_defect("value.range", str(quality.measurements[0].reason)))
    return found


def _count_defects(header: ArmsHeader, windows: int) -> Measurement:
    if not header.arms and not windows:
        return unmeasured(DEFECTS, NO_ARMS(), direction="lower_is_better", unit="count")
    n = max(windows, header.expected, 1)
    return measured_count(DEFECTS, sum(found.count for found in header.defects), n)


def _find_worst(rows: Sequence[WindowPair], quality: Quality) -> tuple[WorstWindow, ...]:
    if quality.found is None:
        return ()
    shifts = quality.found.shifts
    order = np.argsort(-shifts, kind="stable")[:WORST_WINDOWS].tolist()
    return tuple(
        WorstWindow(
            window_id=rows[at].window_id,
            bare=rows[at].bare,
            guarded=rows[at].guarded,
            shift=float(shifts[at]),
        )
        for at in order
        if shifts[at] > 0
    )


def _score_overhead(overhead: Measurement) -> Measurement:
    """Return one minus the overhead, inside [0, 1]; an improvement adds nothing above 1."""
    if overhead.value is None:
        return unmeasured("score", find_reason(overhead), direction="higher_is_better")
    value = min(1.0, max(0.0, 1.0 - overhead.value))
    return measured("score", value, n=overhead.n, direction="higher_is_better")
