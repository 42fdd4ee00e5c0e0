"""A sealed result: everything a promotion may rest on, named by its own content.

The stored document is what counts. Its id and its stamp are digests of members of that document,
as the bytes they are; they never depend on how today's types would write them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from gatemark.core.canonical import (
    canonical_bytes,
    digest_bytes,
    document_members,
    join_members,
    original_fields,
    same_digest,
)
from gatemark.core.errors import IntegrityError, InvalidValueError, NewerFormatError
from gatemark.core.figure import Figure
from gatemark.core.formats import is_newer, newer_format
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Bench, Finding, Outcome, Policy, Verdict, Waiver
from gatemark.core.stored import read_stored

AssetKind = Literal[
    "model", "prompt", "tool", "agent", "ontology", "extractor", "classifier", "rule_pack"
]


@original_fields("id digest")
class AssetRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of one asset, pinned by the digest of its content."""

    id: str
    digest: str


RESULT_FORMAT: Final = "gatemark.result/1"


class PackRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pack that was run: name, version and digest of its definition."""

    name: str
    version: int
    digest: str


class Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file kept beside the result under its digest."""

    name: str
    digest: str
    media_type: str


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls and money that a run used; unknown money is null."""

    calls: int
    money: float | None = None
    currency: str | None = None


OCCASION = ("started_at", "finished_at", "actor", "cost")
"""Fields about the occasion, not the judgement."""
_DOCUMENT: Final = "stored_document"


class Result(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    dict=True,
    rename={"figures": "exhibits"},
):
    """One finished judgement.

    ``id`` is the digest of what was judged, by what, and how it came out: the same evidence under
    the same policy has the same id, whoever ran it and whenever. ``stamp`` is the digest of the
    id together with the occasion, so that nothing in a result is without a seal.
    """

    id: str
    stamp: str
    schema: Literal["gatemark.result/1"] = RESULT_FORMAT
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
    figures: tuple[Figure, ...]
    blobs: tuple[Blob, ...]
    waivers: tuple[Waiver, ...]
    started_at: datetime
    finished_at: datetime
    actor: str
    cost: Cost

    def __post_init__(self) -> None:
        Verdict(self.verdict, self.findings, self.blockers)
        for label, moment in (("started_at", self.started_at), ("finished_at", self.finished_at)):
            if moment.utcoffset() != UTC.utcoffset(None):
                raise InvalidValueError(f"{label} must be UTC, got {moment.isoformat()}")

    @property
    def document(self) -> bytes:
        """The bytes of this result: as they are stored, or as a new one will be stored."""
        stored: bytes | None = self.__dict__.get(_DOCUMENT)
        return canonical_bytes(self) if stored is None else stored


ANSWERED_AT: Final = "answered_at"
STATED_BY: Final = "answered_at.stated_by"


class AnswerTime(msgspec.Struct, frozen=True):
    """When the oldest answer of the candidate was given, and who states it if no answer does.

    It is kept in the runtime of a result: judging the same answers again does not renew them.
    """

    at: datetime
    stated_by: str | None = None

    def runtime(self) -> dict[str, str]:
        """The entries of a result's runtime that say it."""
        said = {ANSWERED_AT: self.at.isoformat().replace("+00:00", "Z")}
        return said if self.stated_by is None else {**said, STATED_BY: self.stated_by}

    @property
    def sentence(self) -> str:
        """Who stated the time, for a caveat."""
        return f"{self.stated_by} states that the answers are from {self.at:%Y-%m-%d %H:%M:%SZ}"


def answer_time_of(result: Result) -> AnswerTime | None:
    """When the answers of a result were given; None when it does not say."""
    said = result.runtime.get(ANSWERED_AT)
    if said is None:
        return None
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        return None
    # What is not a moment says nothing, and a result of an unknown age supports no step up.
    return AnswerTime(at, result.runtime.get(STATED_BY)) if at.tzinfo is not None else None


def seal(**fields: Any) -> Result:
    """Build a result from all its other fields, with the only id and stamp it can have."""
    draft = Result(id="", stamp="", **fields)
    members = document_members(draft.document)
    if not same_digest(digest_bytes(bytes(members["policy"])), draft.policy_digest):
        raise InvalidValueError("the policy digest does not name the policy beside it")
    identity, stamp = _seals(members)
    return msgspec.structs.replace(draft, id=identity, stamp=stamp)


def verify_seal(result: Result) -> None:
    """Raise IntegrityError unless the id and the stamp match the content and the occasion."""
    _check_seals(result.id, result.stamp, document_members(result.document))


def read_result(identity: str, document: bytes) -> Result:
    """Return the result in some stored bytes, which must be the ones that its id names.

    (1) The bytes are hashed as they are stored; (2) only then they are read. A format that only a
    newer build knows raises NewerFormatError: it cannot be judged here.
    """
    try:
        members = document_members(document)
        said = msgspec.json.decode(members["id"], type=str)
        stamp = msgspec.json.decode(members["stamp"], type=str)
        schema = msgspec.json.decode(members["schema"], type=str)
    except (InvalidValueError, KeyError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"result {identity} cannot be read: {error}") from error
    if is_newer(schema, RESULT_FORMAT):
        raise NewerFormatError(f"result {identity} {newer_format(schema)}")
    if said != identity:
        raise IntegrityError(f"result {identity} is stored under an id that is not its own")
    _check_seals(identity, stamp, members)
    try:
        result = read_stored(document, Result)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise IntegrityError(f"result {identity} cannot be read: {error}") from error
    if digest_bytes(bytes(members["policy"])) != result.policy_digest:
        raise IntegrityError(
            f"result {identity} cannot be read: its policy digest names another policy"
        )
    result.__dict__[_DOCUMENT] = document
    return result


def result_from_json(text: bytes) -> Result:
    """Return the sealed result in a JSON file, whatever its white space and the order of its keys.

    Raises InvalidValueError when the text is not a result, IntegrityError when it was changed.
    """
    try:
        document = msgspec.json.decode(text, type=dict[str, object])
        identity = msgspec.convert(document["id"], str)
        stored = canonical_bytes(document)
    except (KeyError, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InvalidValueError(f"not a sealed result ({RESULT_FORMAT})") from error
    return read_result(identity, stored)


def occasion_of(result: Result) -> dict[str, object]:
    """Return what the stamp covers besides the id, as JSON types."""
    members = document_members(result.document)
    occasion: dict[str, object] = msgspec.json.decode(join_members(members, OCCASION))
    return occasion


def _check_seals(identity: str, stamp: str, members: dict[str, msgspec.Raw]) -> None:
    found, found_stamp = _seals(members)
    if not same_digest(found, identity):
        raise IntegrityError(f"result {identity} does not verify: its content gives {found}")
    if not same_digest(found_stamp, stamp):
        raise IntegrityError(f"result {identity} does not verify: its occasion was changed")


def _seals(members: dict[str, msgspec.Raw]) -> tuple[str, str]:
    """The id and the stamp that stored members give, by their bytes alone."""
    content = members.keys() - {"id", "stamp", *OCCASION}
    identity = digest_bytes(join_members(members, content))
    occasion = join_members(members, OCCASION)
    return identity, digest_bytes(b'{"id":"%s","occasion":%s}' % (identity.encode(), occasion))
