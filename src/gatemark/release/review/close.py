"""Close a blind review: reveal the key, open the votes and judge them.

(1) End the voting and append the key to the ledger, in one transaction.
(2) Check key, plan and pairs against the commitment.
(3) Open the votes and exclude reviewers by the gold rule of the plan.
(4) Judge each candidate by the pairwise exam and seal the results.
(5) Rank several candidates.

Steps 2 to 5 can be repeated and always give the same outcome.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from gatemark.core.canonical import same_digest
from gatemark.core.errors import IntegrityError, RefusedError, UsageError
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Outcome
from gatemark.core.text import check_words
from gatemark.evidence.exam import ExamOutcome, ExamRun
from gatemark.evidence.exam_inputs import EXAM_INPUTS, EXPECTED_IDS, write_exam_inputs
from gatemark.evidence.inputs import visible_form
from gatemark.evidence.judge_exam import Scored, judge_exam
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.ledger.event import EventDraft
from gatemark.release.review.cast_rows import read_promised, require_given
from gatemark.release.review.create import append_event, review_key, subject_of_review
from gatemark.release.review.events import REVIEW_CREATED, REVIEW_UNBLINDED, VOTE_CAST
from gatemark.release.review.findings import (
    Arbitration,
    OpenedReview,
    PairAgreement,
    VoteSpread,
    compare_vote_spread,
    count_arbitration,
    count_reviewer_votes,
    find_caveats,
    judge_pair_agreement,
    measure_agreement,
    rank_arms,
)
from gatemark.release.review.items import list_item_ids
from gatemark.release.review.open_stores import erased_pairs, reviews_of
from gatemark.release.review.plan import REVIEW_RULES, ReviewClosing, Said, StoredReview
from gatemark.release.review.queue import count_missing
from gatemark.release.review.sealed_key import check_key
from gatemark.release.review.sealed_rows import VOTES, list_given_votes, outcome_title
from gatemark.release.review.unblind import CastVote, OpenVote, digest_ballots, judge_gold, unblind
from gatemark.release.review.who_may import require_closer
from gatemark.workspace import Workspace

PAIRWISE: Final = "pairwise"


class CloseReview(msgspec.Struct, frozen=True, kw_only=True):
    """End the voting, reveal the key, and judge."""

    review: str
    early: (
        Annotated[
            Said,
            Meta(
                description="Reason to end it while votes are missing; this prevents a pass.",
                extra={"metavar": "WHY"},
            ),
        ]
        | None
    ) = None


class CandidateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one candidate against the baseline, with the numbers of the pairwise exam.

    Without any counted vote there is no result.
    """

    candidate: str
    verdict: Outcome
    reason: str
    blockers: tuple[str, ...]
    result_id: str | None
    items: int
    items_missing: int
    numbers: dict[str, Any]


class ReviewOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a closed review, found by the version ``rules`` of the rules of reviews."""

    review: str
    rules: int
    verdict: Outcome
    candidates: tuple[CandidateOutcome, ...]
    agreement: tuple[Measurement, ...]
    pairs_agreement: tuple[PairAgreement, ...]
    arbitration: Arbitration
    spread: VoteSpread
    reviewers: tuple[dict[str, Any], ...]
    ties: dict[str, int]
    skips: dict[str, int]
    left_out: dict[str, int]
    ranking: dict[str, Any] | None
    caveats: tuple[str, ...]
    commitment: str
    key: str
    ballots_digest: str


def close_review(workspace: Workspace, request: CloseReview) -> ReviewOutcome:
    """Close a review and judge it; a closed review is only judged again."""
    stored = reviews_of(workspace).get(request.review)
    plan = stored.plan
    # Step 1.
    if stored.closing is None:
        require_closer(workspace, stored)
        if request.early is not None:
            _check_reason(request.early)
        check_key(
            reviews_of(workspace).sealed(stored, erased_pairs(workspace, plan.name)),
            review_key(workspace, stored),
            _find_commitment(workspace, plan.name),
        )
        REVIEW_RULES.check(plan.rules)
        _require_given_votes(workspace, plan.name)
        standings = reviews_of(workspace).standings(plan.name)
        if not plan.peeking and request.early is None:
            short = count_missing(standings, plan.votes_per_pair)["short"]
            if short:
                raise RefusedError(
                    f"review {plan.name} still needs votes on {short} pairs",
                    ("vote on them, or close it anyway with --early REASON",),
                )
        _end(workspace, stored, request)
    return review_outcome(workspace, request.review)


def review_outcome(workspace: Workspace, name: str, *, may_seal: bool = True) -> ReviewOutcome:
    """Return the outcome of a closed review, computed from stored rows.

    Without ``may_seal`` nothing is written, and results that are not in the store have no id.
    """
    stored = reviews_of(workspace).get(name)
    if stored.closing is None:
        raise RefusedError(f"review {name} is not closed: its key and votes are sealed")
    # Steps 2 and 3.
    opened = _open(workspace, stored)
    plan = stored.plan
    # Step 4.
    candidates = tuple(
        _judge(workspace, opened, candidate, may_seal=may_seal) for candidate in plan.candidates
    )
    counted = opened.counted
    spread = compare_vote_spread(opened)
    couples = judge_pair_agreement(opened)
    skipped = [vote for vote in opened.cast if vote.answered == "skip"]
    return ReviewOutcome(
        review=name,
        rules=REVIEW_RULES.current,
        verdict=_combine_verdicts([candidate.verdict for candidate in candidates]),
        candidates=candidates,
        agreement=measure_agreement(opened),
        pairs_agreement=couples,
        arbitration=count_arbitration(opened),
        spread=spread,
        reviewers=count_reviewer_votes(counted, opened.gold),
        ties={
            kind: sum(vote.answered == kind for vote in counted)
            for kind in ("both_good", "both_bad")
        },
        skips={
            vote.reviewer: sum(other.reviewer == vote.reviewer for other in skipped)
            for vote in skipped
        },
        left_out=stored.facts["left_out"],
        # Step 5.
        ranking=rank_arms(opened) if len(plan.candidates) > 1 else None,
        caveats=find_caveats(workspace, opened, spread, couples),
        commitment=stored.commitment,
        key=opened.key.hex(),
        ballots_digest=digest_ballots(opened.cast),
    )


def export_votes(workspace: Workspace, name: str, candidate: str | None = None) -> bytes:
    """Return the opened votes against the baseline as ``gatemark.vote/1`` lines."""
    stored = reviews_of(workspace).get(name)
    if stored.closing is None:
        raise RefusedError(f"review {name} is not closed: its key and votes are sealed")
    known = stored.plan.candidates
    if candidate is None and len(known) > 1:
        raise UsageError(f"name one of the candidates with --candidate: {', '.join(known)}")
    wanted = candidate or known[0]
    if wanted not in known:
        raise UsageError(
            f"{wanted!r} is not a candidate of {name}; expected one of {', '.join(known)}"
        )
    return _vote_lines(_open(workspace, stored).between(wanted, stored.plan.baseline))


def measure_interim(workspace: Workspace, stored: StoredReview) -> dict[str, Any]:
    """Return the interim numbers of a review that allows peeking."""
    opened = _open(workspace, stored)
    found: dict[str, Any] = {}
    for candidate in stored.plan.candidates:
        votes = opened.between(candidate, stored.plan.baseline)
        found[candidate] = _examine(workspace, opened, votes).report.facts if votes else None
    return found


def _end(workspace: Workspace, stored: StoredReview, request: CloseReview) -> None:
    name = stored.plan.name
    now = workspace.clock()
    key = review_key(workspace, stored)

    def tell(connection: sa.Connection, votes: list[CastVote]) -> None:
        payload = {
            "commitment": stored.commitment,
            "key": key.hex(),
            "ballots_digest": digest_ballots(votes),
            "vote_count": len(votes),
            "early": request.early,
        }
        draft = EventDraft(REVIEW_UNBLINDED, now, workspace.actor, subject_of_review(name), payload)
        append_event(workspace, connection, draft)

    reviews_of(workspace).close(
        name, ReviewClosing(workspace.actor, now, request.early or ""), tell
    )


def _check_reason(early: str) -> None:
    if not visible_form(early):
        raise UsageError("closing a review early needs a reason that says why")
    check_words(early, "a reason")


def _open(workspace: Workspace, stored: StoredReview) -> OpenedReview:
    name = stored.plan.name
    key = review_key(workspace, stored)
    erased = erased_pairs(workspace, name)
    check_key(reviews_of(workspace).sealed(stored, erased), key, _find_commitment(workspace, name))
    # After the key: a plan that was edited in the database names no rules.
    REVIEW_RULES.check(stored.plan.rules)
    pairs = reviews_of(workspace).pairs(name, erased)
    cast = reviews_of(workspace).votes(name)
    if stored.closing is not None:
        _check_ballots(workspace, name, cast)
    else:
        _require_given_votes(workspace, name)
    votes = unblind(key, cast, pairs)
    gold = judge_gold(votes, stored.plan.gold_min_rate)
    return OpenedReview(stored, key, pairs, cast, votes, gold)


def _check_ballots(workspace: Workspace, name: str, cast: Sequence[CastVote]) -> None:
    """Refuse votes that differ from those that the review was closed with."""
    subject = subject_of_review(name)
    for event, payload in workspace.events.events(kind=REVIEW_UNBLINDED, subject=subject):
        if payload is not None:
            if same_digest(digest_ballots(cast), str(payload["ballots_digest"])):
                return
            raise IntegrityError(
                f"review {name} does not verify: its votes differ from those "
                f"recorded when it was closed (event {event.seq})"
            )
    raise IntegrityError(f"the ledger has no event that review {name} was closed")


def _find_commitment(workspace: Workspace, name: str) -> str:
    """Return the commitment from the ledger: the row in the database could be edited."""
    subject = subject_of_review(name)
    for _, payload in workspace.events.events(kind=REVIEW_CREATED, subject=subject):
        if payload is not None:
            return str(payload["commitment"])
    raise IntegrityError(f"the ledger has no event about review {name}")


def _require_given_votes(workspace: Workspace, name: str) -> None:
    """Refuse votes that differ from their events."""
    subject = subject_of_review(name)
    promised_rows = read_promised(workspace.events.events(kind=VOTE_CAST, subject=subject))
    require_given(
        f"review {name}", list_given_votes(reviews_of(workspace).stored_rows(name)), promised_rows
    )


def _vote_lines(votes: Sequence[OpenVote]) -> bytes:
    ordered = sorted(votes, key=lambda vote: (vote.pair.item, vote.reviewer))
    return b"".join(
        msgspec.json.encode(
            {
                "schema": "gatemark.vote/1",
                "item": vote.pair.item,
                "reviewer": vote.reviewer,
                "choice": vote.choice,
                "first": vote.first,
            }
        )
        + b"\n"
        for vote in ordered
    )


def _examine(
    workspace: Workspace,
    opened: OpenedReview,
    votes: Sequence[OpenVote],
    folder: Path | None = None,
) -> ExamOutcome:
    """Run the pairwise exam over opened votes, with the ids of all items pinned."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="gatemark-") as made:
            return _examine(workspace, opened, votes, Path(made))
    path = folder / VOTES
    path.write_bytes(_vote_lines(votes))
    examined = run_exam(
        ExamRun(
            kind=PAIRWISE,
            options=_choose_options(opened),
            files=[(VOTES, str(path))],
            reading=ReadingChoices(),
            engine=workspace.engine_for(1, 2),
            expected_ids=frozenset(list_item_ids(list(opened.pairs.values()))),
            left_out=_count_left_out(opened),
        )
    )
    files = tuple(msgspec.structs.replace(file, name=VOTES) for file in examined.evidence.files)
    evidence = msgspec.structs.replace(examined.evidence, files=files)
    return msgspec.structs.replace(examined, evidence=evidence)


def _choose_options(opened: OpenedReview) -> dict[str, object]:
    plan = opened.stored.plan
    return {
        # Bonferroni: with several candidates, one of them may look better by chance.
        "alpha": plan.alpha / len(plan.candidates),
        "peeking": plan.peeking,
        "min_decisive": plan.min_decisive,
        "coverage_min": plan.coverage_min,
        "drawn_positions": True,
    }


def _count_left_out(opened: OpenedReview) -> int:
    return sum(opened.stored.facts["left_out"].values())


def _write_inputs(opened: OpenedReview) -> dict[str, bytes]:
    """Return the files that are needed to judge the votes again."""
    sitting = write_exam_inputs(
        PAIRWISE,
        _choose_options(opened),
        ReadingChoices(),
        [VOTES],
        left_out=_count_left_out(opened),
    )
    pinned = "\n".join(sorted(list_item_ids(list(opened.pairs.values()))))
    return {EXAM_INPUTS: sitting, EXPECTED_IDS: pinned.encode()}


def _judge(
    workspace: Workspace, opened: OpenedReview, candidate: str, *, may_seal: bool
) -> CandidateOutcome:
    plan = opened.stored.plan
    votes = opened.between(candidate, plan.baseline)
    if not votes:
        reason = f"no vote on {candidate} against {plan.baseline} counts"
        return CandidateOutcome(
            candidate=candidate,
            verdict="inconclusive",
            reason=reason,
            blockers=(reason,),
            result_id=None,
            items=0,
            items_missing=len(list_item_ids(list(opened.pairs.values()))),
            numbers={},
        )
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        examined = _examine(workspace, opened, votes, Path(folder))
        started_at = opened.stored.created_at
        scored: Scored = judge_exam(
            PAIRWISE,
            examined,
            actor=workspace.actor,
            started_at=started_at,
            finished_at=workspace.clock(),
            title=outcome_title(plan.name, candidate, plan.baseline),
            kept=_write_inputs(opened),
            about=(plan.asset_of(candidate), plan.asset_of(plan.baseline)),
        )
        is_kept = _is_sealed(workspace, scored.result.id)
        if may_seal and not is_kept:
            paths = {VOTES: str(Path(folder) / VOTES)}
            workspace.keep(scored.result, scored.stored_files, paths)
    facts = dict(examined.report.facts)
    return CandidateOutcome(
        candidate=candidate,
        verdict=scored.result.verdict,
        reason=facts.pop("reason"),
        blockers=scored.result.blockers,
        result_id=scored.result.id if may_seal or is_kept else None,
        items=examined.evidence.usable,
        items_missing=examined.evidence.missing,
        numbers=facts,
    )


def _is_sealed(workspace: Workspace, result_id: str) -> bool:
    """Return whether the same result is sealed already: closing again writes nothing."""
    try:
        workspace.results.get(result_id)
    except UsageError:
        return False
    return True


def _combine_verdicts(verdicts: Sequence[Outcome]) -> Outcome:
    """Return pass if some candidate is preferred, fail if the baseline is preferred to all."""
    if "pass" in verdicts:
        return "pass"
    return "fail" if set(verdicts) == {"fail"} else "inconclusive"
