"""Sealed results of every kind for the report tests, all of them synthetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.reasons import state_reason

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.measurement import Evidence, EvidenceFile, Interval, measured, unmeasured
from gatemark.core.policy import Bench, Finding, FindingVerdict, Policy, Rule, Waiver
from gatemark.core.result import (
    AssetRef,
    Blob,
    Cost,
    Matrix,
    PackRef,
    Reliability,
    ReliabilityBin,
    Result,
    Table,
    seal,
)

STARTED_AT = datetime(2025, 3, 14, 9, 26, 53, tzinfo=UTC)

POLICY = Policy(
    name="label-agreement",
    rules=(
        Rule(id="pa", metric="agreement.percent", op=">=", bound=0.9),
        Rule(
            id="kappa",
            metric="agreement.kappa",
            op=">=",
            bound=0.75,
            min_n=30,
            fallback_rules=(
                Rule(id="kappa.ac1", metric="agreement.ac1", op=">=", bound=0.75),
                Rule(
                    id="kappa.pa_lower",
                    metric="agreement.percent",
                    op=">=",
                    bound=0.85,
                    against="lower",
                ),
            ),
        ),
        Rule(id="abstain", metric="agreement.abstain_rate", op="<=", bound=0.02),
        Rule(id="latency", metric="latency.p95", op="<=", bound=250, severity="warn"),
    ),
    score_min=0.85,
    regression_max=0.02,
    settings={"nic_policy": "strict"},
)

PERCENT = measured(
    "agreement.percent",
    0.9417,
    n=240,
    direction="higher_is_better",
    interval=Interval(0.9044, 0.9650, 0.95, "Wilson"),
)
KAPPA = measured(
    "agreement.kappa",
    0.8123,
    n=240,
    direction="higher_is_better",
    interval=Interval(0.7391, 0.8801, 0.95, "bootstrap BCa"),
    other_intervals=(Interval(0.7402, 0.8844, 0.95, "asymptotic"),),
)
LOW_KAPPA = measured(
    "agreement.kappa",
    0.6120,
    n=240,
    direction="higher_is_better",
    interval=Interval(0.5210, 0.6903, 0.95, "bootstrap BCa"),
)
NO_KAPPA = unmeasured(
    "agreement.kappa",
    state_reason("both raters used a single label, so chance agreement is 1"),
    n=240,
    direction="higher_is_better",
    caveats=("low_information",),
)
ABSTAIN = measured(
    "agreement.abstain_rate",
    0.0125,
    n=243,
    direction="lower_is_better",
    interval=Interval(0.0043, 0.0360, 0.95, "Wilson"),
    excluded={"unpaired": 2, "unknown label": 1},
)
LATENCY = measured("latency.p95", 231.5, n=240, direction="lower_is_better", unit="ms")
LANE = measured("advisory.records", 1240, n=1240, direction="neutral", unit="count", scope="triage")


def finding(rule: str, metric: str, verdict: FindingVerdict, **fields: Any) -> Finding:
    """A finding with plain defaults."""
    defaults: dict[str, Any] = {
        "severity": "block",
        "op": ">=",
        "bound": 0.9,
        "against": "value",
        "observed": None,
        "slack": None,
        "n": 240,
        "reason": f"{metric} meets its bound",
    }
    chosen = {**defaults, **fields}
    chosen["reason"] = state_reason(chosen["reason"])
    return Finding(rule=rule, metric=metric, verdict=verdict, **chosen)


PA_HOLDS = finding("pa", "agreement.percent", "pass", observed=0.9417, slack=0.0417)
KAPPA_HOLDS = finding("kappa", "agreement.kappa", "pass", bound=0.75, observed=0.8123, slack=0.0623)
KAPPA_BROKEN = finding(
    "kappa",
    "agreement.kappa",
    "fail",
    bound=0.75,
    observed=0.6120,
    slack=-0.1380,
    reason="agreement.kappa must be >= 0.75, got 0.612 (n=240)",
)
KAPPA_UNKNOWN = finding(
    "kappa",
    "agreement.kappa",
    "inconclusive",
    bound=0.75,
    reason="both raters used a single label, so chance agreement is 1",
)
ABSTAIN_HOLDS = finding(
    "abstain",
    "agreement.abstain_rate",
    "pass",
    op="<=",
    bound=0.02,
    observed=0.0125,
    slack=0.0075,
    n=243,
)
LATENCY_HOLDS = finding(
    "latency",
    "latency.p95",
    "pass",
    severity="warn",
    op="<=",
    bound=250.0,
    observed=231.5,
    slack=18.5,
)

MATRIX = Matrix(
    title="Scholar against auditor",
    row_axis="scholar",
    column_axis="auditor",
    labels=("SUPPORTED", "REFUTED", "NOT_IN_CONTEXT"),
    counts=((131, 4, 1), (3, 62, 2), (0, 4, 33)),
)
TABLE = Table(
    title="Disagreements",
    columns=("qid", "scholar", "auditor", "confidence", "flagged", "why"),
    rows=(
        ("q-017", "SUPPORTED", "REFUTED", 0.71, True, "dates differ"),
        ("q-044", "REFUTED", "NOT_IN_CONTEXT", None, False, "the passage names another plant"),
        ("q-102", "SUPPORTED", "NOT_IN_CONTEXT", 0.55, False, ""),
    ),
    total_rows=14,
)
RELIABILITY = Reliability(
    title="Reliability of the triage prompt",
    bins=(
        ReliabilityBin(0.0, 0.25, 12, 0.2, 0.25, 0.0889, 0.5323),
        ReliabilityBin(0.25, 0.5, 0, None, None, None, None),
        ReliabilityBin(0.5, 0.75, 48, 0.64, 0.5625, 0.4228, 0.6930),
        ReliabilityBin(0.75, 1.0, 1180, 0.93, 0.9, None, None),
    ),
)
EVIDENCE = Evidence(
    received=246,
    accepted=243,
    rejected=3,
    usable=243,
    missing=2,
    expected=248,
    files=(
        EvidenceFile("scholar.jsonl", digest_bytes(b"scholar"), 88123),
        EvidenceFile("auditor.jsonl.zst", digest_bytes(b"auditor"), 19004),
    ),
    duplicates=1,
    checks={"duplicate keys": "checked in every line", "privacy scan": "no findings"},
)
WAIVER = Waiver(
    rule="kappa",
    owner="ana.kovac",
    reason="the second rater was trained after this batch; rerun is booked",
    expires_at=datetime(2025, 4, 1, tzinfo=UTC),
)


def result(**fields: Any) -> Result:
    """A sealed result; every field can be replaced."""
    defaults: dict[str, Any] = {
        "title": "Label agreement of the triage prompt",
        "pack": PackRef("support-triage", 3, digest({"pack": 3})),
        "policy": POLICY,
        "policy_digest": fields.get("policy", POLICY).digest,
        "rules": {"pack": 1},
        "candidate": AssetRef("support-triage@41", digest_bytes(b"candidate")),
        "baseline": AssetRef("support-triage@40", digest_bytes(b"baseline")),
        "snapshots": (digest_bytes(b"snapshot"),),
        "runtime": {"gatemark": "0.1.0", "python": "3.11.7", "numpy": "2.3.0"},
        "evidence": (EVIDENCE,),
        "measurements": (PERCENT, KAPPA, ABSTAIN, LATENCY, LANE),
        "findings": (PA_HOLDS, KAPPA_HOLDS, ABSTAIN_HOLDS, LATENCY_HOLDS),
        "bench": Bench(0.9121, None),
        "regression": Bench(0.0042, None),
        "verdict": "pass",
        "blockers": (),
        "caveats": ("3 records were rejected and 2 are missing",),
        "figures": (MATRIX, TABLE, RELIABILITY),
        "blobs": (Blob("consistency_disagreements.tsv", digest_bytes(b"tsv"), "text/csv"),),
        "waivers": (),
        "started_at": STARTED_AT,
        "finished_at": STARTED_AT + timedelta(seconds=12.4),
        "actor": "ci@example",
        "cost": Cost(486, 1.27, "EUR"),
    }
    return seal(**{**defaults, **fields})


PASSING = result()
FAILING = result(
    verdict="fail",
    measurements=(PERCENT, LOW_KAPPA, ABSTAIN, LATENCY, LANE),
    findings=(PA_HOLDS, KAPPA_BROKEN, ABSTAIN_HOLDS, LATENCY_HOLDS),
    bench=Bench(0.8312, None),
    blockers=(
        "agreement.kappa must be >= 0.75, got 0.612 (n=240)",
        "bench score must be >= 0.85, got 0.8312",
    ),
)
INCONCLUSIVE = result(
    verdict="inconclusive",
    measurements=(PERCENT, NO_KAPPA, ABSTAIN, LATENCY, LANE),
    findings=(PA_HOLDS, KAPPA_UNKNOWN, ABSTAIN_HOLDS, LATENCY_HOLDS),
    bench=Bench(None, state_reason("suite recent has no score")),
    regression=None,
    blockers=("agreement.kappa could not be judged: both raters used a single label",),
)
WAIVED = result(
    measurements=(PERCENT, LOW_KAPPA, ABSTAIN, LATENCY, LANE),
    findings=(
        finding(
            "pa",
            "agreement.percent",
            "pass",
            against="lower",
            bound=0.9,
            observed=0.9044,
            slack=0.0044,
        ),
        finding(
            "kappa",
            "agreement.kappa",
            "waived",
            bound=0.75,
            observed=0.6120,
            slack=-0.1380,
            reason="waived by ana.kovac until 2025-04-01: rerun is booked",
        ),
        finding(
            "overhead",
            "overhead.ratio",
            "soft_pass",
            op="<=",
            bound=1.01,
            n=0,
            reason="the guarded arm has no windows; the policy lets this pass softly",
        ),
        finding(
            "latency",
            "latency.p95",
            "fail",
            severity="warn",
            op="<=",
            bound=200.0,
            observed=231.5,
            slack=-31.5,
            reason="latency.p95 must be <= 200, got 231.5 (n=240)",
        ),
    ),
    waivers=(WAIVER,),
)
BARE = result(
    title="One rule, nothing else",
    candidate=None,
    baseline=None,
    snapshots=(),
    runtime={},
    evidence=(),
    measurements=(),
    findings=(PA_HOLDS,),
    bench=None,
    regression=None,
    caveats=(),
    figures=(),
    blobs=(),
    cost=Cost(0),
)

SAMPLES: dict[str, Result] = {
    "passing": PASSING,
    "failing": FAILING,
    "inconclusive": INCONCLUSIVE,
    "waived": WAIVED,
    "bare": BARE,
}
