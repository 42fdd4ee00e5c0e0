"""The plan of a review, fixed before the first vote, and its pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, TypedDict

import msgspec
from msgspec import Meta

from gatemark.core.canonical import digest
from gatemark.core.errors import InvalidValueError, NotAllowedError
from gatemark.core.result import AssetRef
from gatemark.core.rules import RulesVersions
from gatemark.core.stored import convert_stored, read_stored
from gatemark.ledger.port import GONE
from gatemark.release.lifecycle.model.nouns import Actor, Note
from gatemark.statistics.preference import MIN_DECISIVE

ReviewName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        extra={"looks": "a name of Latin letters, digits, '.', '_' and '-'"},
    ),
]
PairKind = Literal["pair", "gold_better", "gold_same"]
Answered = Literal["a", "b", "both_good", "both_bad", "skip"]
Said = Annotated[Note, Meta(description="Reason, recorded with it.", extra={"metavar": "TEXT"})]
"""What a reviewer says about an answer."""

MAX_PAIRS: Final = 20_000
MAX_PAIR_BYTES: Final = 2 * 1024 * 1024
GOLD_ARMS: Final = ("better", "worse")
REVIEW_RULES: Final = RulesVersions("review")
"""How positions are drawn, votes opened, and an outcome found; the plan names the version."""


Question = Annotated[
    Note, Meta(min_length=1, description="Question to reviewers.", extra={"metavar": "TEXT"})
]
Reviewers = Annotated[
    tuple[Actor, ...],
    Meta(
        max_length=100,
        description="Person who may judge (default: everybody).",
        extra={"flags": ("--reviewer",), "metavar": "NAME"},
    ),
]


class ReviewTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What somebody settles about a review before the first vote."""

    name: Annotated[ReviewName, Meta(description="Name of the review.")]
    candidates: Annotated[
        tuple[ReviewName, ...],
        Meta(min_length=1, max_length=16, description="Name of a candidate."),
    ] = ("candidate",)
    baseline: Annotated[ReviewName, Meta(description="Name of the baseline.")] = "baseline"
    alpha: Annotated[
        float, Meta(gt=0, lt=0.5, description="Significance level of each one-sided claim.")
    ] = 0.05
    peeking: Annotated[
        bool,
        Meta(
            description="Allow reading the numbers before the end; decided by an anytime-valid "
            "e-value."
        ),
    ] = False
    min_decisive: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Minimum number of votes that prefer one side."),
    ] = MIN_DECISIVE
    coverage_min: Annotated[
        float, Meta(ge=0, le=1, description="Minimum share of items with votes.")
    ] = 1.0
    votes_per_pair: Annotated[
        int, Meta(ge=1, le=100, description="Number of people who judge each pair.")
    ] = 1
    reviewers: Reviewers = ()
    arbiter: (
        Annotated[
            Actor,
            Meta(
                description="Person who votes only where the others have no majority.",
                extra={"metavar": "NAME"},
            ),
        ]
        | None
    ) = None
    gold_min_rate: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Minimum share of gold pairs that a reviewer must get right to be counted.",
        ),
    ] = 0.7
    trim: Annotated[bool, Meta(description="Trim whitespace from both ends of all answers.")] = (
        False
    )
    question: Question = "Which answer is better?"

    def __post_init__(self) -> None:
        arms = self.arms
        if len(set(arms)) != len(arms):
            raise InvalidValueError(f"arms must have different names, got {', '.join(arms)}")
        if self.arbiter is not None and self.arbiter in self.reviewers:
            raise InvalidValueError(f"{self.arbiter} cannot be both reviewer and arbiter")
        if self.reviewers and len(set(self.reviewers)) < self.votes_per_pair:
            raise InvalidValueError(
                f"{self.votes_per_pair} votes per pair need as many reviewers, "
                f"got {len(set(self.reviewers))}"
            )

    @property
    def arms(self) -> tuple[str, ...]:
        """All arms, the baseline last."""
        return (*self.candidates, self.baseline)


class ReviewPlan(ReviewTerms, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rules of one review; their digest is in the ledger, so they cannot change later.

    ``assets`` gives the registered versions of the arms; without it, no promotion can cite the
    outcome. ``rules`` is the version of ``REVIEW_RULES`` that creation sets.
    """

    assets: dict[ReviewName, AssetRef] = {}
    rules: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for arm in self.assets:
            if arm not in self.arms:
                raise InvalidValueError(
                    f"{arm} is not an arm of {self.name}; expected one of {', '.join(self.arms)}"
                )

    @property
    def digest(self) -> str:
        """The digest of the plan."""
        return digest(self)

    def asset_of(self, arm: str) -> AssetRef | None:
        """Return the version of an arm, or None if the plan does not have it."""
        return self.assets.get(arm)


class ReviewPair(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Two answers to one item; ``arms`` names their arms in the order of ``answers``."""

    item: str
    arms: tuple[str, str]
    input: object
    answers: tuple[object, object]
    kind: PairKind = "pair"

    @property
    def is_gold(self) -> bool:
        """Whether the right choice is known in advance."""
        return self.kind != "pair"

    def document(self) -> bytes:
        """Return the bytes that are stored and digested."""
        return encode_document(self.item, self)


def encode_document(item: str, content: msgspec.Struct) -> bytes:
    """Return the stored bytes of what reviewers are shown of an item; refuse too much."""
    data = msgspec.json.encode(content, order="deterministic")
    if len(data) > MAX_PAIR_BYTES:
        raise InvalidValueError(
            f"item {item!r} takes {len(data)} bytes, at most {MAX_PAIR_BYTES} are shown"
        )
    return data


def require_named(reviewer: str, review: str, named: Collection[str | None]) -> None:
    """Refuse a reviewer whom a plan does not name; without names, everybody may answer."""
    try:
        msgspec.convert(reviewer, Actor)
    except msgspec.ValidationError as error:
        raise InvalidValueError(f"reviewer {reviewer!r}: {error}") from error
    if named and reviewer not in named:
        raise NotAllowedError(f"{reviewer} is not a reviewer of {review}")


class ReviewClosing(msgspec.Struct, frozen=True):
    """Who closed a review, when and why."""

    by: str
    at: datetime
    note: str


class ReviewFacts(TypedDict):
    """Facts from the creation of a review: how many items were left out, and the tells.

    Its event has them too.
    """

    left_out: dict[str, int]
    tells: list[str]


class StoredReview(msgspec.Struct, frozen=True):
    """A stored review. ``create.review_key`` opens its ``sealed_key``."""

    plan: ReviewPlan
    plan_digest: str
    commitment: str
    sealed_key: bytes
    facts: ReviewFacts
    created_by: str
    created_at: datetime
    closing: ReviewClosing | None


def read_pair(document: bytes) -> ReviewPair:
    """Decode a stored pair."""
    return read_stored(document, ReviewPair)


def build_erased_pair(remains: Mapping[str, object]) -> ReviewPair:
    """Return an erased pair: item and arms, without the question and the answers."""
    gone = {"input": GONE, "answers": [GONE, GONE]}
    return convert_stored({**remains, **gone}, ReviewPair)


def digest_manifest(digests: list[str]) -> str:
    """Return the digest of all pairs of a review, from the digest of each, in order."""
    return digest(digests)
