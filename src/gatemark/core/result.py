"""A sealed result: everything a promotion may rest on, named by its own content.

The stored document is what counts. Its id and its stamp are digests of members of that document,
as the bytes they are; they never depend on how today's types would write them.

Figures are typed, so that every format of a report can draw them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec

from gatemark.core.canonical import (
    canonical_bytes,
    digest_bytes,
    document_members,
    join_members,
    same_digest,
)
from gatemark.core.errors import IntegrityError, InvalidValueError, NewerFormatError
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Bench, Finding, Outcome, Policy, Verdict, Waiver
from gatemark.core.stored import is_newer, newer_format, read_stored

Cell = str | int | float | bool | None


class Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="matrix"):
    """Counts over two label axes, rows first."""

    title: str
    row_axis: str
    column_axis: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.labels)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise InvalidValueError(f"matrix {self.title!r} must be {size} by {size}")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="table"):
    """Rows under named columns; ``total_rows`` counts all rows, also those that were cut off."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total_rows: int

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidValueError(f"table {self.title!r} has a row of another width")
        if self.total_rows < len(self.rows):
            raise InvalidValueError(f"table {self.title!r} shows more rows than it has")


class ReliabilityBin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answers whose confidence is in (low, high]; their rates are null when there are none."""

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None
    interval_low: float | None
    interval_high: float | None

    def __post_init__(self) -> None:
        name = f"reliability bin ({self.low}, {self.high}]"
        rates = (self.confidence, self.accuracy, self.interval_low, self.interval_high)
        if not 0 <= self.low < self.high <= 1:
            raise InvalidValueError(f"{name} must rise and lie inside [0, 1]")
        if self.n < 0:
            raise InvalidValueError(f"{name} must hold >= 0 answers, got {self.n}")
        if self.n == 0 and any(rate is not None for rate in rates):
            raise InvalidValueError(f"{name} is empty but has a rate")
        if self.n > 0 and (self.confidence is None or self.accuracy is None):
            raise InvalidValueError(f"{name} has answers (n={self.n}) but no rate")
        if any(rate is not None and not 0 <= rate <= 1 for rate in rates):
            raise InvalidValueError(f"every rate of {name} must be inside [0, 1], got {rates}")
        if (self.interval_low is None) != (self.interval_high is None):
            raise InvalidValueError(f"{name} has an interval with one end")
        if (
            self.interval_low is not None
            and self.interval_high is not None
            and self.interval_low > self.interval_high
        ):
            raise InvalidValueError(f"{name} has an interval with low > high")


class Reliability(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="reliability"):
    """How often answers were right, bin by bin of the confidence they stated."""

    title: str
    bins: tuple[ReliabilityBin, ...]

    def __post_init__(self) -> None:
        if not self.bins:
            raise InvalidValueError(f"reliability {self.title!r} must have a bin")
        if any(later.low < bin_.high for bin_, later in pairwise(self.bins)):
            raise InvalidValueError(
                f"reliability {self.title!r} has bins that overlap or are out of order"
            )


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One named line through points (x, y) in rising order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


class Curves(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="curves"):
    """Several lines over one plane."""

    title: str
    x_axis: str
    y_axis: str
    lines: tuple[Line, ...]

    def __post_init__(self) -> None:
        if not self.lines or any(not line.points for line in self.lines):
            raise InvalidValueError(f"curves {self.title!r} must have lines, and lines points")
        _refuse_unfit_names(self.title, [line.name for line in self.lines])
        for line in self.lines:
            _refuse_endless(self.title, (number for point in line.points for number in point))
            if any(later[0] <= earlier[0] for earlier, later in pairwise(line.points)):
                raise InvalidValueError(f"curves {self.title!r}: {line.name} must rise in x")


class Stack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bar: an amount per part, none of them negative."""

    name: str
    amounts: tuple[float, ...]


class Stacks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="stacks"):
    """Bars that are each cut into the same parts."""

    title: str
    axis: str
    parts: tuple[str, ...]
    bars: tuple[Stack, ...]

    def __post_init__(self) -> None:
        if not self.parts or not self.bars:
            raise InvalidValueError(f"stacks {self.title!r} must have parts and bars")
        _refuse_unfit_names(self.title, self.parts)
        _refuse_unfit_names(self.title, [bar.name for bar in self.bars])
        for bar in self.bars:
            _refuse_endless(self.title, bar.amounts)
            if len(bar.amounts) != len(self.parts) or min(bar.amounts) < 0:
                raise InvalidValueError(
                    f"stacks {self.title!r}: {bar.name} needs {len(self.parts)} amounts >= 0"
                )


class ForestRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value between the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


class ForestGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values of one thing that stand side by side; ``note`` says how to read them."""

    name: str
    note: str
    rows: tuple[ForestRow, ...]


class Forest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="forest"):
    """Values with their intervals on one scale, group by group."""

    title: str
    axis: str
    groups: tuple[ForestGroup, ...]

    def __post_init__(self) -> None:
        if not self.groups or any(not group.rows for group in self.groups):
            raise InvalidValueError(f"forest {self.title!r} must have groups, and groups rows")
        _refuse_unfit_names(self.title, [group.name for group in self.groups])
        for group in self.groups:
            _refuse_unfit_names(self.title, [row.name for row in group.rows])
            for row in group.rows:
                _refuse_endless(self.title, (row.value, row.low, row.high))
                if row.low > row.high:
                    raise InvalidValueError(
                        f"forest {self.title!r}: {group.name} {row.name} has low > high"
                    )


class TimelineSpan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A span from ``start`` to ``end`` in one lane; a single moment if both are equal."""

    lane: str
    kind: str
    start: float
    end: float
    label: str = ""


class Timeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="timeline"):
    """What happened when, lane by lane."""

    title: str
    axis: str
    lanes: tuple[str, ...]
    spans: tuple[TimelineSpan, ...]

    def __post_init__(self) -> None:
        if not self.lanes or not self.spans:
            raise InvalidValueError(f"timeline {self.title!r} must have lanes and spans")
        _refuse_unfit_names(self.title, self.lanes)
        for span in self.spans:
            _refuse_endless(self.title, (span.start, span.end))
            if span.lane not in self.lanes or span.end < span.start:
                raise InvalidValueError(
                    f"timeline {self.title!r}: {span.kind} must lie in a lane and not end before "
                    f"it starts, got {span.lane!r} [{span.start}, {span.end}]"
                )


def _refuse_endless(title: str, numbers: Iterable[float]) -> None:
    if not all(math.isfinite(number) for number in numbers):
        raise InvalidValueError(f"{title!r} must hold finite numbers")


def _refuse_unfit_names(title: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names) or not all(names):
        raise InvalidValueError(f"{title!r} needs names that differ, got {list(names)}")


class ShiftBin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Neighbouring items, from the ``first`` to the ``last``, and the range of their shifts."""

    first: int
    last: int
    low: float
    middle: float
    high: float

    def __post_init__(self) -> None:
        name = f"shift bin {self.first} to {self.last}"
        if not 1 <= self.first <= self.last:
            raise InvalidValueError(f"{name} must count up from 1")
        if not all(math.isfinite(value) for value in (self.low, self.middle, self.high)):
            raise InvalidValueError(f"{name} must have finite shifts")
        if not self.low <= self.middle <= self.high:
            raise InvalidValueError(f"{name} must have low <= middle <= high")


class Shifts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="shifts"):
    """How far each item moved between two runs, in the order of the items; up is worse.

    ``mean`` is the shift of all items together, ``bound`` the most that it may be.
    """

    title: str
    axis: str
    bins: tuple[ShiftBin, ...]
    mean: float
    bound: float | None

    def __post_init__(self) -> None:
        if not self.bins:
            raise InvalidValueError(f"shifts {self.title!r} must have a bin")
        if any(later.first != bin_.last + 1 for bin_, later in pairwise(self.bins)):
            raise InvalidValueError(f"shifts {self.title!r} has bins with gaps or overlaps")
        if not all(math.isfinite(value) for value in (self.mean, self.bound or 0.0)):
            raise InvalidValueError(f"shifts {self.title!r} must have finite lines")


Figure = Matrix | Table | Reliability | Curves | Stacks | Forest | Timeline | Shifts
AssetKind = Literal[
    "model", "prompt", "tool", "agent", "ontology", "extractor", "classifier", "rule_pack", "lane"
]


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
    """A file kept alongside the result under its digest."""

    name: str
    digest: str
    media_type: str


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls and money that a run used; unknown money is null."""

    calls: int
    money: float | None = None
    currency: str | None = None


PACK_BLOB: Final = "pack.json"
"""The name of the pack that is stored with its result."""
PACK_VERSION: Final = 1
"""The newest version of the format of packs that this build reads."""
RecordedRules = Annotated[dict[str, Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]
"""The version of every set of rules that decided a result, by what they are about."""
OCCASION = ("started_at", "finished_at", "actor", "cost")
"""Fields about the occasion, not the judgement."""
STORED_DOCUMENT: Final = "stored_document"


class Result(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    dict=True,
):
    """One finished judgement.

    ``id`` is the digest of what was judged, by what, and how it came out: the same evidence under
    the same policy has the same id, whoever ran it and whenever. ``stamp`` is the digest of the
    id together with the occasion, so that nothing in a result is without a seal. ``rules`` are the
    versions of the rules that decided it, such as ``{"pack": 1, "agreement": 1}``.
    """

    id: str
    stamp: str
    schema: Literal["gatemark.result/1"] = RESULT_FORMAT
    title: str
    pack: PackRef
    policy: Policy
    policy_digest: str
    rules: RecordedRules
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
        stored: bytes | None = self.__dict__.get(STORED_DOCUMENT)
        return canonical_bytes(self) if stored is None else stored

    @property
    def file_digests(self) -> frozenset[str]:
        """The digests of the evidence and the blobs that it depends on."""
        evidence = (file.digest for part in self.evidence for file in part.files)
        return frozenset((*evidence, *(blob.digest for blob in self.blobs)))


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
    identity, stamp = _compute_seals(members)
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
    result.__dict__[STORED_DOCUMENT] = document
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
    found, found_stamp = _compute_seals(members)
    if not same_digest(found, identity):
        raise IntegrityError(f"result {identity} does not verify: its content gives {found}")
    if not same_digest(found_stamp, stamp):
        raise IntegrityError(f"result {identity} does not verify: its occasion was changed")


def _compute_seals(members: dict[str, msgspec.Raw]) -> tuple[str, str]:
    """The id and the stamp that stored members give, by their bytes alone."""
    content = members.keys() - {"id", "stamp", *OCCASION}
    identity = digest_bytes(join_members(members, content))
    occasion = join_members(members, OCCASION)
    return identity, digest_bytes(b'{"id":"%s","occasion":%s}' % (identity.encode(), occasion))
