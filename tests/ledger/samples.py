"""Sealed results and drafts for tests of the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.reasons import state_reason

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.measurement import Evidence, EvidenceFile
from gatemark.core.policy import Finding, Policy, Rule
from gatemark.core.result import AnswerTime, AssetRef, Blob, Cost, PackRef, Result, seal
from gatemark.ledger.event import EventDraft

MOMENT = datetime(2026, 5, 4, 12, 0, 0, 250_000, tzinfo=UTC)
EVIDENCE = b'{"id":"1"}\n'
ATTACHMENT = b"qid\tscholar\n"


def result(
    title: str = "exam",
    *,
    verdict: str = "pass",
    candidate: str | None = None,
    actor: str = "tester",
    at: datetime = MOMENT,
    with_blobs: bool = False,
    answered_at: datetime = MOMENT,
) -> Result:
    policy = Policy(name="p", rules=(Rule("r", "m", ">=", 0.5),))
    passed = verdict == "pass"
    observed = 0.7 if passed else 0.3
    file = EvidenceFile("evidence.jsonl", digest_bytes(EVIDENCE), len(EVIDENCE))
    return seal(
        title=title,
        pack=PackRef("pack", 1, digest("pack")),
        policy=policy,
        policy_digest=policy.digest,
        rules={"pack": 1},
        candidate=None if candidate is None else AssetRef("triage/candidate", candidate),
        baseline=None,
        snapshots=(),
        runtime={"python": "3", **AnswerTime(answered_at).runtime()},
        evidence=(Evidence(1, 1, 0, 1, 0, None, (file,) if with_blobs else ()),),
        measurements=(),
        findings=(
            Finding(
                *("r", "m", "block", ">=", 0.5, "value", observed, observed - 0.5, 1),
                "pass" if passed else "fail",
                state_reason("so it is"),
            ),
        ),
        bench=None,
        regression=None,
        verdict=verdict,
        blockers=() if passed else ("m must be >= 0.5, got 0.3 (n=1)",),
        caveats=(),
        figures=(),
        blobs=(Blob("a.tsv", digest_bytes(ATTACHMENT), "text/tab-separated-values"),)
        if with_blobs
        else (),
        waivers=(),
        started_at=at,
        finished_at=at,
        actor=actor,
        cost=Cost(calls=0),
    )


def draft(
    number: int,
    kind: str = "noted",
    *,
    actor: str = "tester",
    subject: str | None = None,
    **more: Any,
) -> EventDraft:
    return EventDraft(
        kind, MOMENT + timedelta(seconds=number), actor, subject, {"number": number, **more}
    )
