"""Results and decisions as in-toto statements.

An export is verified by writing its statements again. These functions therefore define the formats
gatemark.result-statement/1 and gatemark.decision-statement/1: their output for a given result or
event never changes. A new wording needs a new function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatemark.core.canonical import DIGEST_PREFIX, canonical_bytes
from gatemark.core.result import Result
from gatemark.ledger.event import Event, moment_text

STATEMENT: Final = "https://in-toto.io/Statement/v1"
TEST_RESULT: Final = "https://in-toto.io/attestation/test-result/v0.1"
DECISION: Final = "urn:gatemark:decision:v1"


def result_statement(result: Result) -> bytes:
    """Return a result as a statement with the test-result predicate; the bytes are reproducible.

    The predicate has three values. An inconclusive result is FAILED here, because nothing may be
    promoted on it; the field ``gatemark`` has the verdict itself.
    """
    groups: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for finding in result.findings:
        if finding.verdict == "pass":
            groups["passedTests"].append(finding.rule)
        elif finding.verdict in ("waived", "soft_pass") or finding.severity == "warn":
            groups["warnedTests"].append(finding.rule)
        else:
            groups["failedTests"].append(finding.rule)
    word = "FAILED"
    if result.verdict == "pass":
        word = "WARNED" if groups["warnedTests"] else "PASSED"
    configuration = [
        _describe_resource(f"pack {result.pack.name} v{result.pack.version}", result.pack.digest),
        _describe_resource(f"policy {result.policy.name}", result.policy_digest),
        *(_describe_snapshot(reference) for reference in result.snapshots),
    ]
    if result.baseline is not None:
        configuration.append(
            _describe_resource(f"baseline {result.baseline.id}", result.baseline.digest)
        )
    return _encode_statement(
        _list_subjects(result),
        TEST_RESULT,
        {
            "result": word,
            "configuration": configuration,
            **groups,
            "gatemark": {
                "result_id": result.id,
                "stamp": result.stamp,
                "verdict": result.verdict,
                "blockers": list(result.blockers),
                "finished_at": result.finished_at,
            },
        },
    )


def decision_statement(
    event: Event, payload: Mapping[str, object], candidate_digest: str | None
) -> bytes:
    """Return a decision as a statement about the version it moves, with the complete event."""
    version = payload.get("version")
    name = event.subject or event.kind
    subject = _describe_resource(
        f"{name}@{version}" if version else name, candidate_digest or event.payload_digest
    )
    predicate = {
        "event": {
            "seq": event.seq,
            "prev": event.prev,
            "kind": event.kind,
            "at": moment_text(event.at),
            "actor": event.actor,
            "subject": event.subject,
            "payload_digest": event.payload_digest,
            "digest": event.digest,
        },
        "payload": dict(payload),
    }
    return _encode_statement([subject], DECISION, predicate)


def _encode_statement(
    subject: list[dict[str, object]], kind: str, predicate: Mapping[str, object]
) -> bytes:
    return canonical_bytes(
        {"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": predicate}
    )


def _list_subjects(result: Result) -> list[dict[str, object]]:
    """Return the candidate as subject, or the evidence if the exam has no candidate."""
    if result.candidate is not None:
        return [_describe_resource(result.candidate.id, result.candidate.digest)]
    files = [file for account in result.evidence for file in account.files]
    return [_describe_resource(file.name, file.digest) for file in files] or [
        _describe_resource(result.title, result.id)
    ]


def _describe_snapshot(reference: str) -> dict[str, object]:
    name, _, digest = reference.rpartition("@")
    return _describe_resource(name or "snapshot", digest)


def _describe_resource(name: str, digest: str) -> dict[str, object]:
    return {"name": name, "digest": {"sha256": digest.removeprefix(DIGEST_PREFIX)}}
