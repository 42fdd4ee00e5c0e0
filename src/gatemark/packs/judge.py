"""Judge both arms' answers; no target is called here.

The gate checks in this order: (1) every suite has enough complete answers and reaches its floor,
(2) neither the pooled suites nor one of them regressed, (3) the bench score is reached, (4) no
adversarial probe broke. A candidate that passes is eligible for shadow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Evidence, EvidenceFile, Measurement, rate
from gatemark.core.policy import (
    Finding,
    Policy,
    Rule,
    Setting,
    Verdict,
    Waiver,
    decide,
    refuse_strays,
)
from gatemark.core.result import Cell, Figure, Table
from gatemark.evidence.rows import Snapshot
from gatemark.packs.answers import (
    Answer,
    asked_rows,
    latency_and_cost_numbers,
    latency_and_cost_table,
)
from gatemark.packs.embeddings import embedding_options
from gatemark.packs.exam_suites import SuiteOutcome, exam_rules
from gatemark.packs.grading import (
    Graded,
    SuiteQualification,
    qualification_rule,
    with_qualification,
)
from gatemark.packs.pack import EXAM_SETTING, FIRST_RULES, RULES, Pack, RegressionMode, SuiteSpec
from gatemark.packs.pack_file import OpenPack, suite_plugin
from gatemark.packs.part_scores import part_numbers
from gatemark.packs.policy import (
    ASKED,
    BENCH_RULE,
    CACHED,
    POOLED_RULE,
    Conditions,
    PackLook,
    asked,
    bench,
    bench_delta,
    bound_of,
    condition_measurements,
    held_report,
    limited_run,
    looks_of,
    outage_condition,
    outage_objection,
    pack_policy,
    pooled_numbers,
    pooled_suites,
    refuse_waived_conditions,
    refuse_waived_limit,
    regression_mode,
    with_chance,
    without_outages,
)
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport
from gatemark.statistics.proportion import two_sided_z

MOST_KINDS = 3
SHOWN_LENGTH = 160
UNSCORED = "not scored"


def error_rate(name: str, lane: str, answers: Sequence[Answer]) -> Measurement:
    """Return the share of answers without a score; caveats list the most frequent reasons first.

    Calls that could not be made are not counted.
    """
    found_out = asked(answers)
    failed = [answer for answer in found_out if answer.score is None]
    found = rate(
        name,
        len(failed),
        len(found_out),
        direction="lower_is_better",
        empty_reason="nothing could be asked",
    )
    return msgspec.structs.replace(found, lane=lane, caveats=_reasons(failed))


def _reasons(failed: Sequence[Answer]) -> tuple[str, ...]:
    by_kind: dict[str, list[Answer]] = {}
    for answer in failed:
        by_kind.setdefault(answer.error or UNSCORED, []).append(answer)
    ranked = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    counted = [f"{len(hit)} {kind}, such as {hit[0].id}: {_said(hit[0])}" for kind, hit in ranked]
    more = len(counted) - MOST_KINDS
    return (*counted[:MOST_KINDS], *((f"{more} other kinds of error",) if more > 0 else ()))


def _said(answer: Answer) -> str:
    text = " ".join((answer.reason or "no reason was given").split())
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


Arm = Mapping[str, tuple[Answer, ...]]


class PackDecision(msgspec.Struct, frozen=True):
    """The decision on a pack, before it is sealed."""

    policy: Policy
    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...]
    verdict: Verdict
    evidence: tuple[Evidence, ...]

    def sealed_fields(self) -> dict[str, object]:
        """Return the fields of a result that follow from the decision."""
        return {
            "policy": self.policy,
            "policy_digest": self.policy.digest,
            "evidence": self.evidence,
            "measurements": self.measurements,
            "findings": self.verdict.findings,
            "verdict": self.verdict.outcome,
            "blockers": self.verdict.blockers,
            "caveats": self.verdict.caveats,
            "figures": self.figures,
        }


class PackEvidence(msgspec.Struct, frozen=True):
    """Everything a pack is judged by: answers of both arms, outcomes of exams, qualified judges.

    ``baseline`` is None if there are no baseline answers; ``graded`` has the judges' replies by
    suite.
    """

    candidate: Arm
    baseline: Arm | None
    files: tuple[EvidenceFile, ...] = ()
    exams: dict[str, SuiteOutcome] = {}
    qualifications: dict[str, SuiteQualification] = {}
    graded: dict[str, Graded] = {}
    limit: int | None = None
    conditions: dict[str, str] = {}


def judge_pack(
    opened: OpenPack,
    gathered: PackEvidence,
    *,
    waivers: Sequence[Waiver],
    now: datetime,
    rules: int = RULES,
) -> PackDecision:
    """Examine every suite and decide, by the rules version ``rules``.

    An adaptive pack is decided at the first look that settles it. This depends on the answers
    alone: answers beyond that look do not count, and skipped looks make the verdict inconclusive.
    """
    if gathered.limit is not None:
        refuse_waived_limit(waivers)
    refuse_waived_conditions(waivers)
    looks = pack_looks(opened, gathered)
    if not looks:
        return _judged(opened, gathered, None, waivers=waivers, now=now, rules=rules)
    seen: list[tuple[Cell, ...]] = []
    for look in looks:
        settled = is_settled(opened, gathered, look, now=now)
        asked_count = sum(map(len, look.due.values()))
        seen.append((look.number, asked_count, round(look.alpha, 5), "yes" if settled else "no"))
        if settled:
            break
    judged = _judged(opened, _by(look, gathered), look, waivers=waivers, now=now, rules=rules)
    columns = ("look", "items asked of each arm", "alpha", "settled")
    table = Table("Looks", columns, tuple(seen), len(seen))
    note = f"adaptive: settled at look {look.number} of {look.total}, alpha {look.alpha:.4g}"
    verdict = msgspec.structs.replace(judged.verdict, caveats=(*judged.verdict.caveats, note))
    return msgspec.structs.replace(judged, figures=(*judged.figures, table), verdict=verdict)


def pack_looks(opened: OpenPack, gathered: PackEvidence) -> tuple[PackLook, ...]:
    """Return the looks at which an adaptive pack can be decided; a limited run has none."""
    if gathered.limit is not None:
        return ()
    return looks_of(opened, _modes(opened.pack, RULES), _compared(opened.pack, gathered))


def is_settled(opened: OpenPack, gathered: PackEvidence, look: PackLook, *, now: datetime) -> bool:
    """Whether nothing more is asked after a look; waivers do not matter.

    It is settled by a drop beyond its margin, and by a pass in which floors also hold at the lower
    end of their intervals: fewer items must not make a floor easier to reach. Missing answers
    settle it too, because they make the verdict inconclusive whatever comes later.
    """
    part = _by(look, gathered)
    judged = _judged(opened, part, look, waivers=(), now=now, rules=RULES)
    if look.is_last or ASKED in judged.policy.settings:
        return True
    if any(account.missing for account in judged.evidence):
        return True
    drops = {POOLED_RULE, *(f"{suite.id}.regression" for suite in opened.pack.suites)}
    if any(f.rule in drops and f.verdict == "fail" for f in judged.verdict.findings):
        return True
    return judged.verdict.outcome == "pass" and _clears_floors(opened.pack, judged)


def _clears_floors(pack: Pack, judged: PackDecision) -> bool:
    lows: dict[str, float] = {}
    for number in judged.measurements:
        if number.name == "score" and number.lane is not None and number.interval is not None:
            lows[number.lane] = number.interval.low
    if sum(suite.weight * lows.get(suite.id, 0.0) for suite in pack.suites) < pack.score_min:
        return False
    floors = [rule for rule in judged.policy.rules if rule.id.endswith(".floor")]
    return all(
        rule.severity != "block" or lows.get(str(rule.lane), 0.0) >= rule.bound for rule in floors
    )


def _by(look: PackLook, gathered: PackEvidence) -> PackEvidence:
    """Return the evidence available at a look."""

    def seen(arm: Arm | None) -> Arm | None:
        if arm is None:
            return None
        return {
            suite: tuple(a for a in answers if a.id in look.due[suite])
            if suite in look.due
            else answers
            for suite, answers in arm.items()
        }

    return msgspec.structs.replace(
        gathered, candidate=seen(gathered.candidate) or {}, baseline=seen(gathered.baseline)
    )


def _judged(
    opened: OpenPack,
    gathered: PackEvidence,
    look: PackLook | None,
    *,
    waivers: Sequence[Waiver],
    now: datetime,
    rules: int,
) -> PackDecision:
    pack, exams = opened.pack, gathered.exams
    alpha = pack.level if look is None else look.alpha
    gathered = msgspec.structs.replace(gathered, conditions=_conditions(gathered))
    compared = _compared(pack, gathered)
    policy = _policy(
        pack, compared, gathered.limit, rules, gathered.conditions, look=look, exams=exams
    )
    pooled = pooled_suites(pack, _modes(pack, rules), compared, rules)
    reports = {
        suite.id: exams[suite.id].report
        if suite.id in exams
        else _examined(opened, suite, gathered, pooled=pooled, rules=rules, alpha=alpha)
        for suite in pack.suites
    }
    accounts = (
        *(
            _account(suite, opened.snapshots[suite.id], gathered, look)
            for suite in pack.suites
            if suite.dataset is not None
        ),
        *(account for exam in exams.values() for account in exam.accounts),
    )
    taken = [] if rules == FIRST_RULES else _latency_and_cost(pack, gathered)
    found = [*_numbers(pack, reports, gathered), *pooled_numbers(opened, reports, pooled, alpha)]
    numbers = (*with_chance(found, alpha, rules), *taken)
    verdict = decide(policy, accounts, numbers, waivers, now=now)
    return PackDecision(
        policy=policy,
        measurements=numbers,
        figures=(
            _gate_steps(pack, verdict),
            _suite_table(pack, reports),
            *latency_and_cost_table(pack, taken),
            *(figure for suite in pack.suites for figure in reports[suite.id].figures),
        ),
        verdict=verdict,
        evidence=accounts,
    )


def check_rules(
    pack: Pack, *, has_baseline: bool, limit: int | None, waivers: Sequence[Waiver]
) -> None:
    """Refuse options, rules and waivers that could not be judged by, before anybody is asked."""
    alone = [suite.id for suite in pack.suites if suite.comparing_judge and not has_baseline]
    if alone:
        raise UsageError(
            f"suite {alone[0]} compares answers with those of a baseline, and there is none; name "
            "one under targets.baseline, or remove the suite"
        )
    if limit is not None:
        refuse_waived_limit(waivers)
    # A result as baseline may have evidence that the pack itself does not name.
    compared = {s.id for s in pack.suites if has_baseline or s.evidence is not None}
    refuse_strays(waivers, _policy(pack, frozenset(compared), limit, RULES))


def policy_of(pack: Pack, *, has_baseline: bool) -> Policy:
    """Return the rules of a pack and of its suites."""
    compared = frozenset(
        suite.id
        for suite in pack.suites
        if (has_baseline if suite.evidence is None else suite.baseline_evidence != "none")
    )
    return _policy(pack, compared, None, RULES)


def _modes(pack: Pack, rules: int) -> dict[str, RegressionMode]:
    defaults: dict[str, RegressionMode] = {
        suite.id: "point" if suite.evidence is not None else suite_plugin(suite).default_regression
        for suite in pack.suites
    }
    return {
        suite.id: regression_mode(pack, suite, defaults[suite.id], rules) for suite in pack.suites
    }


def _policy(
    pack: Pack,
    compared: frozenset[str],
    limit: int | None,
    version: int,
    conditions: Conditions = MappingProxyType({}),
    *,
    look: PackLook | None = None,
    exams: Mapping[str, SuiteOutcome] = MappingProxyType({}),
) -> Policy:
    rules: dict[str, tuple[Rule, ...]] = {}
    settings: dict[str, Setting] = {} if look is None else {**look.settings}
    if pack.adaptive is not None:
        # Part of the exam's identity: a pack that asks in rounds is another exam.
        settings["adaptive_looks"] = pack.adaptive.looks
        settings["adaptive_budget"] = pack.adaptive.budget
    for suite in pack.suites:
        if suite.evidence is not None:
            outcome = exams.get(suite.id)
            rules[suite.id], of_exam = exam_rules(
                suite, version, outcome.rules if outcome else None
            )
            settings.update(of_exam)
            continue
        plugin = suite_plugin(suite)
        own = plugin.rules(suite, _options(suite, plugin.options))
        rules[suite.id] = (*own, *_judge_rules(pack, suite))
    if version > FIRST_RULES:
        # A full pack that was set under older rules is still the full pack.
        settings[EXAM_SETTING] = _policy(pack, compared, limit, FIRST_RULES).digest
    modes = _modes(pack, version)
    return pack_policy(
        pack,
        modes=modes,
        suite_rules=rules,
        compared=compared,
        settings=settings,
        limit=limit,
        conditions=conditions,
        pooled=pooled_suites(pack, modes, compared, version),
        rules_version=version,
    )


def _compared(pack: Pack, gathered: PackEvidence) -> frozenset[str]:
    """Return the suites that have a baseline to regress from."""
    exams = gathered.exams
    return frozenset(
        suite.id
        for suite in pack.suites
        if (exams[suite.id].has_baseline if suite.id in exams else gathered.baseline is not None)
    )


def _judge_rules(pack: Pack, suite: SuiteSpec) -> tuple[Rule, ...]:
    return () if suite.judge is None else (qualification_rule(suite, pack.judges[suite.judge]),)


def _examined(
    opened: OpenPack,
    suite: SuiteSpec,
    gathered: PackEvidence,
    *,
    pooled: frozenset[str],
    rules: int,
    alpha: float,
) -> ArmsReport:
    plugin = suite_plugin(suite)
    evidence = ArmsEvidence(
        spec=suite,
        rows=asked_rows(suite.kind, opened.snapshots[suite.id].rows),
        candidate=gathered.candidate[suite.id],
        baseline=None if gathered.baseline is None else gathered.baseline[suite.id],
        margin=bound_of(opened.pack, suite, pooled),
        alpha=alpha,
        rules=rules,
        replies=gathered.graded[suite.id].replies if suite.id in gathered.graded else {},
    )
    objection = outage_objection(evidence)
    heard = evidence if objection is None else without_outages(evidence)
    report = plugin.examine(heard, _options(suite, plugin.options))
    if suite.dataset is not None and any(answer.parts for answer in heard.candidate):
        parts = part_numbers(heard, plugin, _options(suite, plugin.options))
        report = msgspec.structs.replace(report, measurements=(*report.measurements, *parts))
    if objection is not None:
        report = held_report(report, objection)
    report = _with_caveat(report, scored_by(evidence.candidate))
    if suite.is_embedded:
        model = embedding_options(suite).model
        caveat = f"similarity by {model}, which was not compared with people's judgement"
        report = _with_caveat(report, caveat)
    graded_in = suite.id if suite.comparing_judge else suite.source or suite.id
    if graded_in not in gathered.qualifications:
        return report
    return with_qualification(
        report, suite.id, gathered.qualifications[graded_in], gathered.graded[graded_in]
    )


def _conditions(gathered: PackEvidence) -> dict[str, str]:
    """Return the conditions of the run, apart from missing answers."""
    arms = {"candidate": gathered.candidate, "baseline": gathered.baseline or {}}
    given = {name: why for name, why in gathered.conditions.items() if name != ASKED}
    return {**outage_condition(arms), **given}


def _with_caveat(report: ArmsReport, caveat: str | None) -> ArmsReport:
    """Return a report that says who or what scored, if it was not Gatemark."""
    if caveat is None:
        return report
    score = msgspec.structs.replace(report.score, caveats=(*report.score.caveats, caveat))
    return msgspec.structs.replace(report, score=score)


def scored_by(answers: Sequence[Answer]) -> str | None:
    """Return who scored some answers, or None if Gatemark did."""
    tools = sorted({answer.scored_by for answer in answers if answer.scored_by is not None})
    return f"scored by {', '.join(tools)}, not by Gatemark" if tools else None


def _options(suite: SuiteSpec, options_type: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return msgspec.convert(suite.options, options_type)
    except msgspec.ValidationError as error:
        raise UsageError(f"suite {suite.id}: options: {error}") from error


def _account(
    suite: SuiteSpec, snapshot: Snapshot, gathered: PackEvidence, look: PackLook | None
) -> Evidence:
    """Return the account of a suite: items pinned by the snapshot and items answered.

    In an adaptive pack, only the items that are due by a look are pinned.
    """
    answers = gathered.candidate[suite.id]
    answered = {answer.id for answer in answers}
    due = snapshot.ids if look is None else look.due[suite.id]
    scorer = scored_by(answers)
    return Evidence(
        received=len(answers),
        accepted=len(answers),
        rejected=0,
        usable=len(answered),
        missing=len(due - answered),
        expected=len(due),
        files=tuple(file for file in gathered.files if file.name.startswith(f"{suite.id}.")),
        checks={
            "suite": suite.id,
            "kind": suite.kind,
            "snapshot": snapshot.reference,
            **({} if scorer is None else {"scoring": scorer}),
        },
    )


def _numbers(
    pack: Pack, reports: Mapping[str, ArmsReport], gathered: PackEvidence
) -> tuple[Measurement, ...]:
    numbers = list(condition_measurements(gathered.conditions))
    compared = _compared(pack, gathered)
    if gathered.limit is not None:
        numbers.append(limited_run())
    for suite in pack.suites:
        report = reports[suite.id]
        numbers.append(report.score)
        if suite.id in compared:
            numbers.append(report.baseline_score)
        numbers.extend(report.measurements)
        if suite.id in gathered.exams:
            continue
        numbers.append(error_rate("error_rate", suite.id, gathered.candidate[suite.id]))
        if gathered.baseline is not None:
            numbers.append(error_rate("baseline_error_rate", suite.id, gathered.baseline[suite.id]))
    scores = {suite.id: reports[suite.id].score for suite in pack.suites}
    total = bench(pack, scores, "bench")
    numbers.append(total)
    if compared:
        before = bench(
            pack, {s.id: reports[s.id].baseline_score for s in pack.suites}, "bench_baseline"
        )
        errors_by_suite = {suite.id: reports[suite.id].delta_error for suite in pack.suites}
        numbers.append(before)
        numbers.append(bench_delta(pack, total, before, errors_by_suite, two_sided_z(0.95)))
    return tuple(numbers)


def _latency_and_cost(pack: Pack, gathered: PackEvidence) -> list[Measurement]:
    # Judging the same evidence again must give the same, so only stored evidence counts.
    arms = () if pack.targets is None else (pack.targets.candidate, pack.targets.baseline)
    caveat = None
    if CACHED in gathered.conditions or any("recorded" in arm for arm in arms):
        caveat = "reused answers have the latency and cost of when they were given"
    return latency_and_cost_numbers(pack, gathered.candidate, gathered.baseline, caveat)


def _gate_steps(pack: Pack, verdict: Verdict) -> Table:
    """Return the four gate steps, each with the rule closest to its bound."""
    suite_ids = {suite.id for suite in pack.suites}
    steps: dict[str, list[Finding]] = {
        "1 minimum probes": [],
        "2 regression": [],
        "3 score": [],
        "4 adversarial probes": [],
    }
    for finding in verdict.findings:
        lane, _, kind = finding.rule.rpartition(".")
        if finding.rule == BENCH_RULE:
            steps["3 score"].append(finding)
        elif finding.rule == POOLED_RULE or (lane in suite_ids and kind == "regression"):
            steps["2 regression"].append(finding)
        elif lane in suite_ids and kind == "broken_probes":
            steps["4 adversarial probes"].append(finding)
        else:
            steps["1 minimum probes"].append(finding)
    rows: list[tuple[Cell, ...]] = []
    for step, findings in steps.items():
        if not findings:
            rows.append((step, "not asked for", None, None))
            continue
        states = {_state(finding) for finding in findings}
        state = next(s for s in _STATES if s in states)
        tightest = min(findings, key=lambda f: (f.slack is not None, f.slack or 0.0))
        rows.append((step, state, tightest.rule, tightest.slack))
    eligible = "yes" if verdict.outcome == "pass" else "no"
    rows.append(("eligible for shadow", eligible, None, None))
    return Table("Gate", ("step", "outcome", "tightest rule", "slack"), tuple(rows), len(rows))


_STATES = ("fail", "inconclusive", "waived", "soft_pass", "warned", "pass")
"""From worst to best."""


def _state(finding: Finding) -> str:
    """Return the effect of a finding on its step; a hold or a warning does not fail it."""
    if finding.verdict not in {"fail", "inconclusive"} or finding.severity == "block":
        return finding.verdict
    return "inconclusive" if finding.severity == "hold" else "warned"


def _suite_table(pack: Pack, reports: Mapping[str, ArmsReport]) -> Table:
    rows = tuple(
        (
            suite.id,
            suite.kind,
            suite.weight,
            _rounded(reports[suite.id].score),
            _rounded(reports[suite.id].baseline_score),
            suite.min,
            "yes" if suite.id in pack.required_suites else "no",
        )
        for suite in pack.suites
    )
    columns = ("suite", "kind", "weight", "candidate", "baseline", "floor", "required")
    return Table("Suites", columns, rows, len(rows))


def _rounded(number: Measurement) -> float | None:
    return None if number.value is None else round(number.value, 4)
