"""Real sealed results about versions, for tests that go through a store."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.reasons import state_reason

from gatemark.core.canonical import digest
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Finding, Policy, Rule
from gatemark.core.result import AnswerTime, AssetRef, Cost, PackRef, Result, seal
from gatemark.release.lifecycle.model.nouns import PackIdentity
from gatemark.release.lifecycle.pack_identity import identify_result_pack

POLICY = Policy(name="p", rules=(Rule("golden.floor", "score", ">=", 0.5),))
LAXER = Policy(name="p", rules=(Rule("golden.floor", "score", ">=", 0.1),))
SUITES = {"golden": "golden", "recent": "replay", "probes": "adversarial"}


def result(
    asset: str,
    candidate: str,
    at: datetime,
    *,
    title: str = "exam",
    verdict: Any = "pass",
    baseline: str | None = None,
    policy: Policy = POLICY,
    answered_at: datetime | None = None,
    is_timed: bool = True,
    measurements: tuple[Measurement, ...] = (),
) -> Result:
    """A result as a pack run would seal it."""
    answered = AnswerTime(answered_at or at).runtime() if is_timed else {}
    observed = 0.7 if verdict == "pass" else 0.05
    return seal(
        title=title,
        pack=PackRef("pack", 1, digest("pack")),
        policy=policy,
        policy_digest=policy.digest,
        rules={"pack": 1},
        candidate=AssetRef(f"{asset}/candidate", candidate),
        baseline=None if baseline is None else AssetRef(f"{asset}/baseline", baseline),
        snapshots=tuple(sorted(f"{suite}@{digest(suite)}" for suite in SUITES)),
        runtime={"python": "3", **answered},
        evidence=tuple(
            Evidence(
                *(1, 1, 0, 1, 0, 1, ()),
                checks={"suite": suite, "kind": kind, "snapshot": f"{suite}@{digest(suite)}"},
            )
            for suite, kind in SUITES.items()
        ),
        measurements=measurements,
        findings=(
            Finding(
                *("golden.floor", "score", "block", ">=", 0.5, "value"),
                *(observed, observed - 0.5, 1, verdict, state_reason("so it is")),
            ),
        ),
        bench=None,
        regression=None,
        verdict=verdict,
        blockers=() if verdict == "pass" else ("score must be >= 0.5, got 0.05 (n=1)",),
        caveats=(),
        figures=(),
        blobs=(),
        waivers=(),
        started_at=at,
        finished_at=at,
        actor="eve",
        cost=Cost(calls=0),
    )


def sealed_pack_identity(at: datetime) -> PackIdentity:
    """The exam that these results sit."""
    return identify_result_pack(result("any", digest("any"), at))
