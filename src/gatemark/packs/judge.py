"""Judge an answered run; no target is called here.

The gate checks in this order: (1) every suite has enough complete answers and reaches its floor,
(2) neither the pooled suites nor one of them regressed, (3) the bench score is reached, (4) no
adversarial probe broke. A candidate that passes is eligible for shadow.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Bench, Policy, Verdict, Waiver, decide
from gatemark.core.reason import ReasonKind
from gatemark.core.result import Cell, Figure, Table
from gatemark.packs.conditions import ASKED, refuse_waived_conditions
from gatemark.packs.gate_tables import make_gate_table, make_suite_table
from gatemark.packs.latency_and_cost import make_latency_and_cost_table
from gatemark.packs.limited_runs import refuse_waived_limit
from gatemark.packs.looks import PackLook
from gatemark.packs.margins import choose_regression_modes
from gatemark.packs.pack import Pack
from gatemark.packs.pack_numbers import measure_answer_costs, measure_suites_and_bench
from gatemark.packs.policy import POOLED_RULE, make_run_policy
from gatemark.packs.pooled_drop import (
    POOLED,
    choose_pooled_suites,
    mark_chance_drops,
    measure_pooled_drop,
)
from gatemark.packs.repeated_inputs import count_inputs_once
from gatemark.packs.run import AnsweredRun
from gatemark.packs.suite_reports import examine_answers

NO_BASELINE: Final = ReasonKind("no_baseline", "the pack says that there is no baseline")


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
            "bench": self.verdict.bench,
            "regression": self.verdict.regression,
        }


class JudgedAgain(msgspec.Struct, frozen=True):
    """A result judged again: what differs apart from the decision, and what was not checked.

    ``title`` and ``caveats`` are what else the result must say, if that follows from what it keeps.
    """

    judged: PackDecision
    differences: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    title: str | None = None
    caveats: tuple[str, ...] = ()


def judge_run(answered: AnsweredRun, *, now: datetime) -> PackDecision:
    """Examine every suite and decide.

    An adaptive pack is decided at the first look that settles it. This depends on the answers
    alone: answers beyond that look do not count, and skipped looks make the verdict inconclusive.
    """
    waivers = answered.run.waivers
    if answered.run.limit is not None:
        refuse_waived_limit(waivers)
    refuse_waived_conditions(waivers)
    looks = answered.looks
    if not looks:
        return _decide_at_look(answered, None, waivers=waivers, now=now)
    seen: list[tuple[Cell, ...]] = []
    for look in looks:
        settled = is_settled(answered, look, now=now)
        asked_count = sum(map(len, look.due.values()))
        seen.append((look.number, asked_count, round(look.alpha, 5), "yes" if settled else "no"))
        if settled:
            break
    judged = _decide_at_look(answered.select_due(look), look, waivers=waivers, now=now)
    columns = ("look", "items asked of each arm", "alpha", "settled")
    table = Table("Looks", columns, tuple(seen), len(seen))
    note = f"adaptive: settled at look {look.number} of {look.total}, alpha {look.alpha:.4g}"
    verdict = msgspec.structs.replace(judged.verdict, caveats=(*judged.verdict.caveats, note))
    return msgspec.structs.replace(judged, figures=(*judged.figures, table), verdict=verdict)


def is_settled(answered: AnsweredRun, look: PackLook, *, now: datetime) -> bool:
    """Whether nothing more is asked after a look; waivers do not matter.

    It is settled by a drop beyond its margin, and by a pass in which floors also hold at the lower
    end of their intervals: fewer items must not make a floor easier to reach. Missing answers
    settle it too, because they make the verdict inconclusive whatever comes later.
    """
    judged = _decide_at_look(answered.select_due(look), look, waivers=(), now=now)
    if look.is_last or ASKED in judged.policy.settings:
        return True
    if any(account.missing for account in judged.evidence):
        return True
    pack = answered.run.pack
    drops = {POOLED_RULE, *(f"{suite.id}.regression" for suite in pack.suites)}
    if any(f.rule in drops and f.verdict == "fail" for f in judged.verdict.findings):
        return True
    return judged.verdict.outcome == "pass" and _clears_floors(pack, judged)


def _clears_floors(pack: Pack, judged: PackDecision) -> bool:
    lows: dict[str, float] = {}
    for number in judged.measurements:
        if number.name == "score" and number.scope is not None and number.interval is not None:
            lows[number.scope] = number.interval.low
    if sum(suite.weight * lows.get(suite.id, 0.0) for suite in pack.suites) < pack.score_min:
        return False
    floors = [rule for rule in judged.policy.rules if rule.id.endswith(".floor")]
    return all(
        rule.severity != "block" or lows.get(str(rule.scope), 0.0) >= rule.bound for rule in floors
    )


def _decide_at_look(
    answered: AnsweredRun,
    look: PackLook | None,
    *,
    waivers: Sequence[Waiver],
    now: datetime,
) -> PackDecision:
    answered = msgspec.structs.replace(answered, conditions=answered.find_conditions())
    run, compared = answered.run, answered.compared
    pack, exams = run.pack, run.exams
    alpha = pack.level if look is None else look.alpha
    policy = make_run_policy(pack, compared, run.limit, answered.conditions, look=look)
    pooled = choose_pooled_suites(pack, choose_regression_modes(pack), compared)
    counted = count_inputs_once(answered)
    reports = {
        suite.id: exams[suite.id].report
        if suite.id in exams
        else examine_answers(counted, suite, pooled=pooled, alpha=alpha)
        for suite in pack.suites
    }
    accounts = (
        *answered.account_for_answers(look),
        *(account for exam in exams.values() for account in exam.accounts),
    )
    taken = measure_answer_costs(answered)
    found = [
        *measure_suites_and_bench(counted, reports),
        *measure_pooled_drop(run.opened, reports, pooled, alpha),
    ]
    numbers = (*mark_chance_drops(found, alpha), *taken)
    verdict = _add_totals(decide(policy, accounts, numbers, waivers, now=now), numbers)
    return PackDecision(
        policy=policy,
        measurements=numbers,
        figures=(
            make_gate_table(pack, verdict),
            make_suite_table(pack, reports),
            *make_latency_and_cost_table(pack, taken),
            *(figure for suite in pack.suites for figure in reports[suite.id].figures),
        ),
        verdict=verdict,
        evidence=accounts,
    )


def _add_totals(verdict: Verdict, numbers: Sequence[Measurement]) -> Verdict:
    """Return the verdict with the bench score and the worst drop, or why there is none."""
    by_key = {number.key: number for number in numbers}
    total, pooled = by_key["bench", None], by_key.get((POOLED, None))
    drops = [pooled] if pooled else [n for n in numbers if n.name == "regression"]
    worst = max((n.value for n in drops if n.value is not None), default=None)
    unknown = next((n.reason for n in drops if n.value is None), None)
    return msgspec.structs.replace(
        verdict,
        bench=Bench(total.value, total.reason),
        regression=Bench(
            None if unknown or not drops else worst,
            unknown or (None if drops else NO_BASELINE()),
        ),
    )
