"""An open blind review: create it, show the next pair, and vote.

Nothing here reveals the key, which arm is which, or an item's own id. Traits that could give an arm
away (tells) are reported when a review is created; answers are never edited to hide them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import (
    IntegrityError,
    InvalidValueError,
    NotAllowedError,
    RefusedError,
    UnknownNameError,
    UsageError,
)
from gatemark.core.result import AssetRef
from gatemark.core.text import check_words
from gatemark.evidence.reading_choices import OnUnpaired, ReadingChoices
from gatemark.ledger.event import EventDraft
from gatemark.ledger.signing.outside_key import ensure_outside_key
from gatemark.release.lifecycle.assets import version_ref
from gatemark.release.lifecycle.model.nouns import Pin, ResultReference, parse_version_ref
from gatemark.release.review.cast_rows import GivenRow, build_given_payload
from gatemark.release.review.events import (
    REVIEW_CREATED,
    REVIEW_LOOKED_AT,
    REVIEW_UNBLINDED,
    VOTE_CAST,
)
from gatemark.release.review.items import (
    Answers,
    find_newest_result,
    match_arms,
    read_answers,
    read_gold,
    read_sealed_answers,
)
from gatemark.release.review.open_stores import erased_pairs, refuse_erased, reviews_of
from gatemark.release.review.plan import (
    MAX_PAIRS,
    REVIEW_RULES,
    Answered,
    ReviewName,
    ReviewPair,
    ReviewPlan,
    ReviewTerms,
    Said,
    StoredReview,
    digest_manifest,
    require_named,
)
from gatemark.release.review.queue import PairProgress, next_number, next_to_arbitrate
from gatemark.release.review.sealed_key import (
    KEY_BYTES,
    Sealed,
    commit_key,
    draw_token,
    is_swapped,
    open_key,
    seal_key,
)
from gatemark.release.review.sealed_rows import ShowRow
from gatemark.release.review.unblind import CastVote, check_answer, find_undecided
from gatemark.release.review.who_may import require_judge, require_maker
from gatemark.workspace import Workspace

SHARE_MIN: Final = 0.9
PAIRS_MIN: Final = 5


_MARKUP: Final = ("**", "```", "\n- ", "\n# ")
_TRAITS: Final[tuple[tuple[str, Callable[[Any], bool]], ...]] = (
    ("start or end with spaces", lambda one: isinstance(one, str) and one != one.strip()),
    ("are JSON, not text", lambda one: not isinstance(one, str)),
    ("contain Markdown", lambda one: isinstance(one, str) and any(m in one for m in _MARKUP)),
)


def find_tells(pairs: Sequence[ReviewPair], arms: Sequence[str]) -> tuple[str, ...]:
    """Describe traits by which a reviewer could tell the arms apart."""
    answers: dict[str, list[object]] = {arm: [] for arm in arms}
    for pair in pairs:
        if not pair.is_gold:
            for arm, answer in zip(pair.arms, pair.answers, strict=True):
                answers[arm].append(answer)
    found = [
        f"{count} answers of {arm} name an arm"
        for arm, given in answers.items()
        if (count := sum(_names_an_arm(answer, arms) for answer in given))
    ]
    for words, has in _TRAITS:
        shares = {arm: sum(map(has, given)) / len(given) for arm, given in answers.items() if given}
        if not shares or min(map(len, answers.values())) < PAIRS_MIN:
            continue
        if max(shares.values()) >= SHARE_MIN and min(shares.values()) <= 1 - SHARE_MIN:
            shown = ", ".join(f"{share:.0%} of {arm}" for arm, share in shares.items())
            found.append(f"answers {words}: {shown}")
    return tuple(found)


def _names_an_arm(answer: object, arms: Sequence[str]) -> bool:
    """Return whether a text contains an arm's name; short and default names are skipped."""
    text = str(answer).casefold()
    everyday = {"candidate", "baseline"}
    return any(len(arm) >= 4 and arm not in everyday and arm.casefold() in text for arm in arms)


class CreateReview(ReviewTerms, frozen=True, kw_only=True):
    """Match the answers of two or more arms, draw who sees which first, and seal it.

    The answers are in ``files`` by arm name, or they are the arms of a pack run: one named by its
    sealed ``result``, or the newest one of its ``pack``.
    """

    files: Mapping[str, str] = {}
    result: (
        Annotated[
            ResultReference,
            Meta(
                description="Sealed pack run to take both arms from.", extra={"metavar": "RESULT"}
            ),
        ]
        | None
    ) = None
    pack: (
        Annotated[
            Pin,
            Meta(
                description="Pack whose newest run to take both arms from.",
                extra={"metavar": "NAME"},
            ),
        ]
        | None
    ) = None
    suite: (
        Annotated[
            Pin,
            Meta(
                description="Suite of the run; required if it has several.",
                extra={"metavar": "ID"},
            ),
        ]
        | None
    ) = None
    assets: Annotated[
        Mapping[ReviewName, Annotated[str, Meta(min_length=1, max_length=200)]],
        Meta(
            max_length=17,
            description="Registered version of an arm, so that a promotion can cite the outcome.",
            extra={"flags": ("--asset",), "metavar": "[ARM=]ASSET@VERSION"},
        ),
    ] = {}
    gold: (
        Annotated[
            str,
            Meta(
                description="Pairs with a known right choice, to mix in.",
                extra={"metavar": "FILE"},
            ),
        ]
        | None
    ) = None
    on_unpaired: Annotated[
        OnUnpaired,
        Meta(
            description="Whether to refuse items that an arm lacks, or to exclude them; they "
            "count as missing."
        ),
    ] = "error"
    note: Said = ""


class ReviewCreated(msgspec.Struct, frozen=True, kw_only=True):
    """A new review."""

    review: str
    commitment: str
    manifest_digest: str
    plan_digest: str
    pair_count: int
    gold_count: int
    left_out: dict[str, int]
    tells: tuple[str, ...]


class ShownPair(msgspec.Struct, frozen=True, kw_only=True):
    """A pair as a reviewer sees it; both answers have the same form."""

    review: str
    question: str
    token: str
    ordinal: int
    input: object
    a: object
    b: object
    answered: Answered | None = None
    reason: str = ""


class VoteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Vote on a pair that was shown, or change a vote; a skip needs a ``reason``."""

    review: str
    actor: str
    token: Annotated[
        str,
        Meta(
            max_length=64,
            description="Pair seen before (default: the open one).",
            extra={"metavar": "TOKEN"},
        ),
    ]
    answered: Annotated[Answered, Meta(description="Which answer is better.")]
    reason: Annotated[Said, Meta(description="Reason; a skip needs one.")] = ""
    is_in_person: ClassVar[bool] = True


class SavedVote(msgspec.Struct, frozen=True, kw_only=True):
    """A stored vote."""

    review: str
    token: str
    answered: Answered
    version: int


def create_review(
    workspace: Workspace,
    request: CreateReview,
    *,
    key: bytes | None = None,
) -> ReviewCreated:
    """Match the arms, draw and seal the key, and append the commitment to the ledger.

    ``key`` is for tests: anyone who knows it is not blind.
    """
    require_maker(workspace, "make a review")
    check_words(request.note, "a note")
    choices = ReadingChoices(on_unpaired=request.on_unpaired)
    arms, known = _read_arms(workspace, request, choices)
    plan = _settle_plan(workspace, request, known)
    matched = match_arms(arms, choices, trim=plan.trim)
    gold = [] if request.gold is None else read_gold(request.gold, choices)
    pairs = [*matched.pairs, *gold]
    if len(pairs) > MAX_PAIRS:
        raise InvalidValueError(f"a review holds at most {MAX_PAIRS} pairs, got {len(pairs)}")
    documents = [pair.document() for pair in pairs]
    digests = [digest_bytes(document) for document in documents]
    refuse_erased(
        workspace, "pair", {one: pair.item for one, pair in zip(digests, pairs, strict=True)}
    )
    drawn = secrets.token_bytes(KEY_BYTES) if key is None else key
    sealed = Sealed(plan.name, plan.digest, digest_manifest(digests))
    committed = commit_key(sealed, drawn)
    created = ReviewCreated(
        review=plan.name,
        commitment=committed,
        manifest_digest=sealed.manifest_digest,
        plan_digest=sealed.plan_digest,
        pair_count=len(matched.pairs),
        gold_count=len(gold),
        left_out={reason: len(items) for reason, items in matched.left_out.items()},
        tells=find_tells(pairs, plan.arms),
    )
    now = workspace.clock()
    stored = StoredReview(
        plan=plan,
        plan_digest=sealed.plan_digest,
        commitment=committed,
        sealed_key=seal_key(ensure_outside_key(workspace.review_key_file), committed, drawn),
        facts={"left_out": created.left_out, "tells": list(created.tells)},
        created_by=workspace.actor,
        created_at=now,
        closing=None,
    )
    payload = {
        **msgspec.to_builtins(created),
        "plan": msgspec.to_builtins(plan),
        "note": request.note,
    }
    subject = subject_of_review(plan.name)
    draft = EventDraft(REVIEW_CREATED, now, workspace.actor, subject, payload)
    reviews_of(workspace).create(
        stored, documents, lambda connection: append_event(workspace, connection, draft)
    )
    return created


def next_pair(workspace: Workspace, name: str, reviewer: str) -> ShownPair | None:
    """Return the reviewer's current pair, or the next one; None at the end."""
    stored = open_review(workspace, name)
    _require_reviewer(workspace, stored.plan, reviewer)
    plan, key = stored.plan, review_key(workspace, stored)
    erased = erased_pairs(workspace, name)

    def pick(
        standings: list[PairProgress], votes: list[CastVote], seen: list[ShowRow]
    ) -> tuple[int, str] | None:
        before = {*erased, *(show.number for show in seen)}
        if reviewer == plan.arbiter:
            split = find_undecided_pairs(key, plan, standings, votes)
            number = next_to_arbitrate(key, reviewer, split, before)
        else:
            number = next_number(
                key, reviewer, standings, before, votes_per_pair=plan.votes_per_pair
            )
        return None if number is None else (number, draw_token(key, reviewer, number))

    show = reviews_of(workspace).show(name, reviewer, pick, workspace.clock(), erased)
    return None if show is None else _show_pair(workspace, stored, show)


def shown_pair(workspace: Workspace, name: str, reviewer: str, shown_token: str) -> ShownPair:
    """Return a pair that the reviewer has seen before."""
    stored = open_review(workspace, name)
    _require_reviewer(workspace, stored.plan, reviewer)
    return _show_pair(workspace, stored, _find_show(workspace, name, reviewer, shown_token))


def cast_vote(workspace: Workspace, request: VoteRequest) -> SavedVote:
    """Store a vote, a changed vote or a skip; only for pairs that were shown."""
    name, reason = request.review, request.reason
    stored = open_review(workspace, name)
    _require_reviewer(workspace, stored.plan, request.actor)
    check_answer(request.answered, reason)
    check_words(reason, "a reason")
    show = _find_show(workspace, name, request.actor, request.token)
    erasure = erased_pairs(workspace, name).get(show.number)
    if erasure is not None:
        raise RefusedError(f"this pair was {erasure.words}; ask for the next one")
    now = workspace.clock()

    def tell(connection: sa.Connection, row: GivenRow) -> None:
        payload, subject = build_given_payload(name, row), subject_of_review(name)
        draft = EventDraft(VOTE_CAST, now, request.actor, subject, payload)
        append_event(workspace, connection, draft)

    version = reviews_of(workspace).vote(
        name, show, request.answered, reason=reason, at=now, tell=tell
    )
    return SavedVote(review=name, token=show.token, answered=request.answered, version=version)


def open_review(workspace: Workspace, name: str) -> StoredReview:
    """Return a review that is still open for votes, and whose positions this build draws."""
    stored = reviews_of(workspace).get(name)
    if stored.closing is not None:
        raise RefusedError(f"review {name} is closed")
    REVIEW_RULES.check(stored.plan.rules)
    return stored


def review_key(workspace: Workspace, stored: StoredReview) -> bytes:
    """Return the key of a review: from the ledger if it is closed, otherwise from its row."""
    name = stored.plan.name
    if stored.closing is not None:
        subject = subject_of_review(name)
        for _, payload in workspace.events.events(kind=REVIEW_UNBLINDED, subject=subject):
            if payload is not None:
                return bytes.fromhex(str(payload["key"]))
        raise IntegrityError(f"the ledger has no event that review {name} was closed")
    try:
        return open_key(stored.sealed_key, stored.commitment, workspace.review_key_file)
    except FileNotFoundError as error:
        raise UsageError(
            f"review {name} cannot be opened here: {workspace.review_key_file} is missing; copy it "
            "from where the review was made, or name it with GATEMARK_REVIEW_KEY"
        ) from error


def append_event(workspace: Workspace, connection: sa.Connection, draft: EventDraft) -> None:
    """Append an event in the caller's transaction."""
    workspace.store.events.add(connection, lambda _: [draft])


def subject_of_review(name: str) -> str:
    """Return the subject of a review's events; no asset can have this name."""
    return f"review:{name}"


def find_lookers(workspace: Workspace, name: str) -> frozenset[str]:
    """Return the people who saw interim numbers of a review."""
    subject = subject_of_review(name)
    looks = workspace.events.events(kind=REVIEW_LOOKED_AT, subject=subject)
    return frozenset(event.actor for event, _ in looks)


def _read_arms(
    workspace: Workspace, request: CreateReview, choices: ReadingChoices
) -> tuple[dict[str, Answers], dict[str, AssetRef]]:
    """Return the answers of every arm, and the assets that a sealed result names for them."""
    given = [bool(request.files), request.result is not None, request.pack is not None]
    if sum(given) != 1:
        raise UsageError("give one of: files, a sealed result, or a pack")
    if not request.files:
        reference = request.result or find_newest_result(workspace, str(request.pack))
        found, known = read_sealed_answers(workspace, reference, request.suite)
        if request.arms != tuple(found):
            raise UsageError("a sealed result has the arms candidate and baseline")
        return found, known
    if set(request.files) != set(request.arms):
        raise UsageError(f"files must be given for {', '.join(request.arms)}")
    return {arm: read_answers(request.files[arm], choices) for arm in request.arms}, {}


def _settle_plan(
    workspace: Workspace, request: CreateReview, known: Mapping[str, AssetRef]
) -> ReviewPlan:
    """Return the plan with the versions of its arms; versions in the request must exist."""
    named = {arm: version_ref(workspace, parse_version_ref(a)) for arm, a in request.assets.items()}
    for arm, said in named.items():
        if arm in known and known[arm].digest != said.digest:
            raise UsageError(
                f"{arm} is {known[arm].id} ({known[arm].digest}) in the sealed result, "
                f"not {request.assets[arm]} ({said.digest})"
            )
    terms = {name: getattr(request, name) for name in ReviewTerms.__struct_fields__}
    return ReviewPlan(**terms, assets={**known, **named}, rules=REVIEW_RULES.current)


def _require_reviewer(workspace: Workspace, plan: ReviewPlan, reviewer: str) -> None:
    require_judge(workspace, reviewer, {*plan.reviewers, plan.arbiter})
    named = {*plan.reviewers, plan.arbiter} if plan.reviewers else ()
    require_named(reviewer, plan.name, named)
    if plan.peeking and reviewer in find_lookers(workspace, plan.name):
        raise NotAllowedError(f"{reviewer} has seen numbers of {plan.name} and is no longer blind")


def _find_show(workspace: Workspace, name: str, reviewer: str, shown_token: str) -> ShowRow:
    for show in reviews_of(workspace).shows(name, reviewer):
        if secrets.compare_digest(show.token.encode(), shown_token.encode()):
            return show
    raise UnknownNameError(f"{reviewer} has not seen pair {shown_token!r} of {name}")


def _show_pair(workspace: Workspace, stored: StoredReview, show: ShowRow) -> ShownPair:
    erased = erased_pairs(workspace, stored.plan.name)
    pair = reviews_of(workspace).pair(stored.plan.name, show.number, erased)
    first, second = pair.answers
    if is_swapped(review_key(workspace, stored), show.reviewer, show.number):
        first, second = second, first
    saved = reviews_of(workspace).last_vote(stored.plan.name, show)
    return ShownPair(
        review=stored.plan.name,
        question=stored.plan.question,
        token=show.token,
        ordinal=show.ordinal,
        input=pair.input,
        a=first,
        b=second,
        answered=None if saved is None else saved[0],
        reason="" if saved is None else saved[1],
    )


def find_undecided_pairs(
    key: bytes, plan: ReviewPlan, standings: list[PairProgress], votes: list[CastVote]
) -> frozenset[int]:
    """Return the pairs without a majority, not counting the arbiter's votes."""
    gold = {pair.number for pair in standings if pair.is_gold}
    cast = [vote for vote in votes if vote.reviewer != plan.arbiter]
    return find_undecided(key, cast, gold, plan)
