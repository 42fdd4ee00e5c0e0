"""A sealed result: everything a promotion may rest on, named by its own content."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from gatemark.core.canonical import digest, same_digest
from gatemark.core.change import AssetRef
from gatemark.core.errors import IntegrityError, InvalidValueError
from gatemark.core.evidence import Evidence
from gatemark.core.exhibit import Exhibit
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Policy, Waiver
from gatemark.core.verdict import Bench, Finding, Outcome, Verdict


class PackRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The exam that was sat: name, version and digest of its definition."""

    name: str
    version: int
    digest: str


class Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file kept beside the result under its digest."""

    name: str
    digest: str
    media_type: str


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the run used up; unknown stays null."""

    calls: int
    money: float | None = None
    currency: str | None = None


OCCASION = ("started_at", "finished_at", "actor", "cost")
"""The fields that tell of the occasion and not of the judgement."""


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One finished judgement.

    ``id`` is the digest of what was judged, by what, and how it came out: the same evidence under
    the same policy has the same id, whoever ran it and whenever. ``stamp`` is the digest of the
    id together with the occasion, so that nothing in a result is without a seal.
    """

    id: str
    stamp: str
    schema: Literal["gatemark.result/1"] = "gatemark.result/1"
    title: str
    pack: PackRef
    policy: Policy
    policy_digest: str
    candidate: AssetRef | None
    baseline: AssetRef | None
    snapshots: tuple[str, ...]
    runtime: dict[str, str]
    evidence: tuple[Evidence, ...]
    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    bench: Bench | None
    regression: Bench | None
    verdict: Outcome
    blockers: tuple[str, ...]
    caveats: tuple[str, ...]
    exhibits: tuple[Exhibit, ...]
    blobs: tuple[Blob, ...]
    waivers: tuple[Waiver, ...]
    started_at: datetime
    finished_at: datetime
    actor: str
    cost: Cost

    def __post_init__(self) -> None:
        if not same_digest(self.policy_digest, self.policy.digest):
            raise InvalidValueError("the policy digest does not name the policy beside it")
        Verdict(self.verdict, self.findings, self.blockers)
        for label, moment in (("started_at", self.started_at), ("finished_at", self.finished_at)):
            if moment.utcoffset() != UTC.utcoffset(None):
                raise InvalidValueError(f"{label} must be UTC, got {moment.isoformat()}")


def seal(**fields: Any) -> Result:
    """Build a result from all its other fields, with the only id and stamp it can have."""
    draft = Result(id="", stamp="", **fields)
    identity, stamp = _seals(draft)
    return msgspec.structs.replace(draft, id=identity, stamp=stamp)


def verify_seal(result: Result) -> None:
    """Refuse a result whose content does not give its id, or its occasion not its stamp."""
    identity, stamp = _seals(result)
    if not same_digest(identity, result.id):
        raise IntegrityError(f"result {result.id} does not verify: its content gives {identity}")
    if not same_digest(stamp, result.stamp):
        raise IntegrityError(f"result {result.id} does not verify: its occasion was changed")


def occasion_of(result: Result) -> dict[str, Any]:
    """What the stamp covers beside the id, in plain form."""
    plain: dict[str, Any] = msgspec.to_builtins({name: getattr(result, name) for name in OCCASION})
    return plain


def _seals(result: Result) -> tuple[str, str]:
    content = msgspec.to_builtins(result)
    del content["id"], content["stamp"]
    occasion = {name: content.pop(name) for name in OCCASION}
    identity = digest(content)
    return identity, digest({"id": identity, "occasion": occasion})
