"""The guard-overhead exam: read two arms, pair their windows, judge quality, time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.errors import UsageError
from gatemark.core.measurement import (
    Evidence,
    EvidenceFile,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.core.policy import Policy, Verdict
from gatemark.core.progress import Progress
from gatemark.evidence.exam import (
    DocumentType,
    EvidenceRole,
    Exam,
    ExamOutcome,
    ExamReport,
    ExamSuite,
    VerdictNotes,
    checked_options,
    counted,
)
from gatemark.evidence.source import STDIN, ReadingChoices, digest_source, inspect_source
from gatemark.exams.overhead.advice import plain_reasons, remedies
from gatemark.exams.overhead.arms import ArmFile, Defect, Role, defect, headline, read_arm
from gatemark.exams.overhead.costs import (
    Costs,
    read_costs,
    restore_defects,
    schedule_digest,
    spent,
    unknown_costs,
)
from gatemark.exams.overhead.document import (
    ArmPart,
    ArmsHeader,
    CostsPart,
    Facts,
    OverheadReport,
    WorstWindow,
    summary_document,
)
from gatemark.exams.overhead.measure import (
    BARE,
    GUARDED,
    OVERHEAD,
    Basis,
    Quality,
    Resampling,
    measure_quality,
    quality_unmeasured,
)
from gatemark.exams.overhead.pairing import WindowPairing, prove
from gatemark.exams.overhead.policy import (
    DEFECTS,
    FIRST_RULES,
    INSTALL,
    PROFILE,
    RULES,
    OverheadOptions,
    is_loosened,
    is_looser_profile,
    judging_policy,
    resolve,
)
from gatemark.exams.overhead.views import figures_of
from gatemark.exams.overhead.window_numbers import (
    SECOND_RUNS,
    SecondRun,
    WindowPair,
    amounts,
    floor_of,
    second_numbers,
)
from gatemark.scorers.scorer import truncate

WORST_WINDOWS: Final = 10
FOLD_BATCH: Final = 4_096
_STATED: Final = ("metric_kind", "seeds", "device", "snapshot_hash", "plan", "guards")
UNPAIRED: Final = "the arms do not pair"
FILES: Final = ("bare", "guarded", "noise", "repeat", "costs")
"""The roles of files, in the order of the evidence account."""


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
        self.settings = resolve(options)

    def begin(
        self,
        arms: Mapping[Role, ArmFile],
        costs: Costs | None = None,
        costs_file: CostsPart | None = None,
    ) -> ComparedArms:
        """Pair the arms; there are no rows unless every check of the pairing passes."""
        bare, guarded = arms["bare"], arms["guarded"]
        pairing = prove(bare, guarded)
        if bare.meta is not None:
            restored = tuple(restore_defects(costs, bare.meta.snapshot_hash))
            pairing = pairing._replace(defects=(*pairing.defects, *restored))
        again: dict[SecondRun, tuple[Defect, ...]] = {
            role: prove(bare, arms[role], role).defects
            for role in SECOND_RUNS
            if role in arms and not pairing.defects
        }
        resampling = self._resampling(bare.meta.seeds.bootstrap if bare.meta else None)
        header = ArmsHeader(
            kind=None if bare.meta is None else bare.meta.metric_kind,
            arms={role: _arm_part(arm) for role, arm in arms.items()},
            defects=pairing.defects,
            second_defects=again,
            expected=pairing.expected_count,
            schedule=schedule_digest(bare),
            spent=unknown_costs(UNPAIRED) if pairing.defects else spent(costs, bare, resampling),
            costs=costs_file,
            repeated_contents=len(bare.contents) - len(set(bare.contents)),
        )
        rows: Sequence[WindowPair] = ()
        if not pairing.defects:
            usable = {role: arms[role] for role, found in again.items() if not found}
            rows = _rows(bare, guarded, usable)
        return ComparedArms(OverheadExamState(shard=-1, header=header), rows, pairing)

    def title(self, report: ExamReport) -> str:
        """Return the overhead in one line."""
        overhead, bare, guarded = (report.by_name[name] for name in (OVERHEAD, BARE, GUARDED))
        if overhead.value is None or bare.value is None or guarded.value is None:
            defects = report.facts["overhead"].defects
            why = headline(defects, is_brief=True) if defects else overhead.reason
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
        return judging_policy(self.options)

    def finish(self, state: OverheadExamState) -> ExamReport:
        rows = [row for shard in sorted(state.rows) for row in state.rows[shard]]
        header = state.header
        bare = header.arms.get("bare")
        seeds = bare.seeds if bare else None
        resampling = self._resampling(seeds["bootstrap"] if seeds else None)
        quality = self._quality(rows, header, resampling)
        numbers = [
            *self._with_caveats(quality, bare, header.repeated_contents),
            _defect_count(header, len(rows)),
            *header.spent.measurements,
        ]
        if self.settings.install_budget is not None and numbers[-1].name != INSTALL:
            reason = "no install time was recorded"
            numbers.append(unmeasured(INSTALL, reason, direction="lower_is_better", unit="ms"))
        if self.options.rules != FIRST_RULES:
            numbers.extend(second_numbers(rows, self.settings))
        if self.options.rules >= RULES:
            numbers.extend(amounts(rows, self.settings))
        second_runs = {
            role: floor_of(role, rows, header.second_defects.get(role, ()), resampling)
            for role in SECOND_RUNS
            if getattr(self.options, role)
        }
        numbers.extend(floor for floor, _ in second_runs.values())
        facts = Facts(
            **msgspec.structs.asdict(header) | {"defects": _defects(header, quality, len(rows))},
            basis=rows[0].basis if rows else None,
            windows=len(rows),
            weight=int(sum(row.weight for row in rows)),
            worst=_worst(rows, quality),
            resampling=resampling,
            second_runs=second_runs,
        )
        return ExamReport(
            measurements=tuple(numbers),
            figures=figures_of(facts, numbers, self.options, quality.found),
            attachments={},
            facts={"overhead": facts},
            score=_score(numbers[0]),
        )

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        return summary_document(
            self.options,
            self.policy(),
            report,
            evidence=evidence,
            verdict=verdict,
            remedies=self._remedies(report, verdict),
        )

    def reasons(self, report: ExamReport, verdict: Verdict) -> dict[str, str]:
        """Return plain words for the rules that do not hold."""
        return plain_reasons(self.options, report.facts["overhead"], report.by_name, verdict)

    def closing(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> VerdictNotes:
        """Return what to do about a verdict that is not a pass."""
        del evidence
        found = self._remedies(report, verdict)
        return VerdictNotes(caveats=tuple(f"next: {text}" for text in found))

    def _remedies(self, report: ExamReport, verdict: Verdict) -> tuple[str, ...]:
        return remedies(self.options, report.facts["overhead"], report.by_name, verdict)

    def _resampling(self, seed: int | None) -> Resampling:
        return Resampling(seed or 0, self.settings.level, self.settings.resamples)

    def _quality(
        self, rows: Sequence[WindowPair], header: ArmsHeader, resampling: Resampling
    ) -> Quality:
        if header.defects:
            return Quality(quality_unmeasured(headline(header.defects), UNPAIRED), None)
        if not rows:
            return Quality(quality_unmeasured("no windows"), None)
        weights = np.array([row.weight for row in rows])
        bare = np.array([row.bare for row in rows])
        guarded = np.array([row.guarded for row in rows])
        return measure_quality(rows[0].basis, weights, bare, guarded, resampling)

    def _with_caveats(
        self, quality: Quality, bare: ArmPart | None, repeated_contents: int
    ) -> list[Measurement]:
        """Return the numbers, with caveats on the overhead."""
        first, *others = quality.measurements
        found = quality.found
        if found is None:
            return [first, *others]
        caveats = list(first.caveats)
        budget = self.settings.budget
        if bare is not None:
            caveats.extend(_doubts(bare, repeated_contents))
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


def _doubts(bare: ArmPart, repeated_contents: int) -> list[str]:
    """Return caveats about windows that are not independent or cannot be repeated."""
    reasons = []
    if bare.plan is not None and bare.plan["stride"] < bare.plan["seq_len"]:
        reasons.append("windows overlap, so the interval is narrower than it should be")
    if repeated_contents:
        subject = "1 window has" if repeated_contents == 1 else f"{repeated_contents} windows have"
        reasons.append(
            f"{subject} the content of another, so the interval is narrower than it should be"
        )
    if bare.seeds is not None and set(bare.seeds.values()) == {None}:
        reasons.append("no arm names a seed, so nobody can run this again")
    return reasons


def _rows(bare: ArmFile, guarded: ArmFile, again: Mapping[SecondRun, ArmFile]) -> list[WindowPair]:
    is_accuracy = bare.meta is not None and bare.meta.metric_kind == "accuracy"
    basis: Basis = "count" if is_accuracy else "loss"
    missing = [None] * len(bare.ids)
    second = [again[role].values if role in again else missing for role in SECOND_RUNS]
    columns = (bare.ids, bare.weights, bare.values, guarded.values, *second)
    return [WindowPair(basis, *row) for row in zip(*columns, strict=True)]


def _arm_part(arm: ArmFile) -> ArmPart:
    stated: dict[str, object] = dict.fromkeys(_STATED)
    if arm.meta is not None:
        stated |= {k: v for k, v in msgspec.to_builtins(arm.meta).items() if k in _STATED}
    part = {"file": arm.label, "digest": arm.digest, "windows": len(arm.ids), **stated}
    return msgspec.convert(part, ArmPart)


def _defects(header: ArmsHeader, quality: Quality, windows: int) -> tuple[Defect, ...]:
    """Return every defect, in the order of the checks."""
    found = (*header.defects, *chain.from_iterable(header.second_defects.values()))
    if windows and quality.found is None:
        found = (*found, defect("value.range", str(quality.measurements[0].reason)))
    return found


def _defect_count(header: ArmsHeader, windows: int) -> Measurement:
    if not header.arms and not windows:
        return unmeasured(DEFECTS, "no arms", direction="lower_is_better", unit="count")
    n = max(windows, header.expected, 1)
    return counted(DEFECTS, sum(found.count for found in header.defects), n)


def _worst(rows: Sequence[WindowPair], quality: Quality) -> tuple[WorstWindow, ...]:
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


def _score(overhead: Measurement) -> Measurement:
    """Return one minus the overhead, inside [0, 1]; an improvement adds nothing above 1."""
    if overhead.name != OVERHEAD or overhead.value is None:
        return unmeasured(
            "score",
            overhead.reason or "the overhead was not measured",
            direction="higher_is_better",
        )
    value = min(1.0, max(0.0, 1.0 - overhead.value))
    return measured("score", value, n=overhead.n, direction="higher_is_better")


def examine_overhead(
    paths: Mapping[str, str | None],
    options: Mapping[str, object],
    choices: ReadingChoices,
    *,
    on_progress: Progress | None = None,
) -> ExamOutcome:
    """Run the exam over ``bare`` and ``guarded``, and the other roles if given.

    ``noise`` is a second bare run, ``repeat`` a second guarded one, ``costs`` has recorded time and
    memory. Without an arm nothing is measured.
    """
    unknown = sorted(set(paths) - set(FILES))
    if unknown:
        raise UsageError(f"overhead: unknown file role {unknown[0]!r} (known: {', '.join(FILES)})")
    if paths.get("bare") is None and paths.get("guarded") is None:
        raise UsageError("give --bare and --guarded")
    if STDIN in paths.values():
        raise UsageError("arms must be files, not standard input: they may be read twice")
    second = [role for role in SECOND_RUNS if paths.get(role) is not None]
    given: dict[str, object] = {**options, **{role: role in second for role in SECOND_RUNS}}
    exam = OverheadExam(checked_options("overhead", given, OverheadOptions))
    tick = _ticker(paths, on_progress)
    roles: tuple[Role, ...] = ("bare", "guarded", *second)
    accepts_zero = exam.options.rules >= RULES
    arms = {
        role: read_arm(role, paths.get(role), choices, tick, accepts_zero=accepts_zero)
        for role in roles
    }
    costs, part, costs_file = None, None, None
    if path := paths.get("costs"):
        costs_file = digest_source(inspect_source(path))
        costs, part = read_costs(path), CostsPart(file=Path(path).name, digest=costs_file.digest)
    compared = exam.begin(arms, costs, part)
    state = exam.zero(0)
    for start in range(0, len(compared.rows), FOLD_BATCH):
        state = exam.step(state, compared.rows[start : start + FOLD_BATCH])
    report = exam.finish(exam.merge(compared.state, state))
    return ExamOutcome(exam, report, _account(arms, compared.pairing, costs_file, choices))


def _account(
    arms: Mapping[Role, ArmFile],
    pairing: WindowPairing,
    costs_file: EvidenceFile | None,
    choices: ReadingChoices,
) -> Evidence:
    accepted = sum(len(arm.ids) + (arm.meta is not None) for arm in arms.values())
    rejected = sum(arm.hole_count for arm in arms.values())
    # A refused line or a duplicate is counted as such, not also as missing.
    lost = rejected + pairing.duplicate_count
    missing = pairing.expected_count - pairing.paired_count
    files = [
        EvidenceFile(arm.name, arm.digest, arm.byte_count)
        for arm in arms.values()
        if arm.digest is not None
    ]
    return Evidence(
        received=accepted + rejected,
        accepted=accepted,
        rejected=rejected,
        usable=pairing.paired_count,
        missing=max(0, missing - lost),
        expected=pairing.expected_count or None,
        files=(*files, costs_file) if costs_file else tuple(files),
        duplicates=pairing.duplicate_count,
        checks={
            "duplicate_keys": choices.checks()["duplicate_keys"],
            "windows": "compared one by one",
        },
    )


def _ticker(
    paths: Mapping[str, str | None], on_progress: Progress | None
) -> Callable[[int], None] | None:
    if on_progress is None:
        return None
    files = [Path(path) for role, path in paths.items() if path is not None and role != "costs"]
    total = sum(file.stat().st_size for file in files if file.is_file())
    done = 0

    def tick(byte_count: int) -> None:
        nonlocal done
        done = min(total, done + byte_count)
        on_progress(done, total)

    return tick


SUITE = ExamSuite(
    kind="overhead",
    summary="What do the guards cost on the same windows, and is that within the budget?",
    options=OverheadOptions,
    build=lambda options, _measures: OverheadExam(options),
    roles=(
        EvidenceRole("bare", "The arm without guards.", required=True),
        EvidenceRole("guarded", "The arm with the whole guard chain.", required=True),
        EvidenceRole("noise", "A second bare run, for the noise floor."),
        EvidenceRole("repeat", "A second guarded run, which must repeat the first."),
        EvidenceRole("costs", "Recorded time and memory, as the runner writes it."),
    ),
    examine=lambda run: examine_overhead(
        dict(run.files), run.options, run.reading, on_progress=run.on_progress
    ),
    role_options=lambda roles: {role: role in roles for role in SECOND_RUNS},
    newest_rules={"rules": RULES},
    documents=(
        DocumentType(
            "gatemark.overhead-report/1",
            "The report of guard overhead; closed: no other key is allowed.",
            OverheadReport,
        ),
        DocumentType(
            "gatemark.overhead-costs/1",
            "Time and memory of both arms, recorded beside them.",
            Costs,
        ),
    ),
)
