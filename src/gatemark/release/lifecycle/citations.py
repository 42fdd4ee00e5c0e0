"""Look up cited results and check their seals and evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, is_digest, same_digest
from gatemark.core.errors import IntegrityError, OtherRulesError, RefusedError, UsageError
from gatemark.core.result import Result, answer_time_of
from gatemark.ledger.blobs import digest_of
from gatemark.ledger.event_kinds import BLOB_ERASED
from gatemark.ledger.port import BlobStore, erasure_of
from gatemark.release.lifecycle.decisions.citation import short
from gatemark.release.lifecycle.model.nouns import Cited, CitedSuite
from gatemark.release.lifecycle.model.stages import LANE
from gatemark.release.lifecycle.pack_identity import identify_result_pack, pack_kind
from gatemark.release.lifecycle.state_cache import asset_state_cache
from gatemark.workspace import Workspace

_REFERENCE = re.compile(r"(sha256:)?[0-9a-f]{8,64}\Z")
_EXCUSED = ("waived", "soft_pass")


def result_ids(workspace: Workspace, references: Iterable[str]) -> tuple[str, ...]:
    """Return the full ids of results given by id or id prefix."""
    found = []
    for reference in references:
        if not _REFERENCE.match(reference):
            raise UsageError(f"{reference!r} is not a result id (sha256:… or 8 or more hex digits)")
        full = DIGEST_PREFIX + reference.removeprefix(DIGEST_PREFIX)
        if is_digest(full):
            found.append(full)
            continue
        try:
            found.append(workspace.results.get(reference).id)
        except UsageError as error:
            raise RefusedError(str(error)) from error
    return tuple(found)


class FoundResults(Mapping[str, Cited]):
    """Results by id, each looked up when a rule needs it; they cannot be listed."""

    def __init__(self, look_up: Callable[[str], Cited | None]) -> None:
        self._look_up = look_up

    def __getitem__(self, result_id: str) -> Cited:
        found = self._look_up(result_id)
        if found is None:
            raise KeyError(result_id)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Citations(FoundResults):
    """The results in a store; each is read once.

    A missing result is left out. A result that was changed, or whose evidence was, raises an error.
    With ``must_go_on`` it counts as missing and its evidence is not checked: rollbacks and routing
    must never be blocked.
    """

    def __init__(self, workspace: Workspace, asset: str, *, must_go_on: bool) -> None:
        # A method in place of the function would be a cycle, and keep the store open.
        super().__init__(cache(partial(_read_cited, workspace, asset, must_go_on)))


def _read_cited(workspace: Workspace, asset: str, must_go_on: bool, result_id: str) -> Cited | None:
    try:
        result = _get(workspace, result_id, must_go_on=must_go_on)
        if result is not None and not must_go_on:
            _check_evidence(workspace, result)
    except IntegrityError:
        if must_go_on:
            return None
        raise
    if result is None:
        return None
    states = asset_state_cache(workspace)
    # A rollback accepts results that passed, of any pack.
    if must_go_on:
        return summed_up(result, None)
    cited = summed_up(result, workspace.blobs)
    if states.read(asset).asset.kind != LANE:
        return cited
    # Judging lanes loads exams and statistics, which nothing else here needs.
    from gatemark.packs.lanes import candidate_lanes  # noqa: PLC0415

    return msgspec.structs.replace(cited, candidate_lanes=candidate_lanes(workspace.blobs, result))


def _get(workspace: Workspace, result_id: str, *, must_go_on: bool) -> Result | None:
    """Return a cited result; a rollback may rest on one of rules that this build does not have."""
    try:
        return workspace.citable_result(result_id)
    except UsageError:
        return None
    except OtherRulesError:
        if not must_go_on:
            raise
        return workspace.results.get(result_id)


def _check_evidence(workspace: Workspace, result: Result) -> None:
    erasure = erasure_of(result)
    if erasure is not None:
        raise RefusedError(
            f"the texts of result {short(result.id)} were {erasure.words}; only a fresh result can "
            "be cited"
        )
    erased = erased_evidence(workspace, result)
    if erased:
        raise RefusedError(
            f"result {short(result.id)} rests on evidence that was erased "
            f"(event {min(erased.values())}); only a fresh result can be cited"
        )
    check_blobs(workspace, result)
    _check_subject(workspace, result)


def _check_subject(workspace: Workspace, result: Result) -> None:
    # Reading packs is not needed to route or to roll back.
    from gatemark.packs.kept_targets import check_subject  # noqa: PLC0415

    check_subject(result, workspace.blobs)


def erased_evidence(workspace: Workspace, result: Result) -> dict[str, int]:
    """Return the erased blobs of a result, and the events of their erasure."""
    gone = {name for name in result.file_digests if not workspace.blobs.has(name)}
    if not gone:
        return {}
    return {
        str(payload["digest"]): event.seq
        for event, payload in workspace.events.events(kind=BLOB_ERASED)
        if payload is not None and payload["digest"] in gone
    }


def check_blobs(workspace: Workspace, result: Result, erased: Collection[str] = ()) -> None:
    """Raise an error if evidence was changed, or is missing without having been erased."""
    for name in sorted(result.file_digests - set(erased)):
        if not same_digest(digest_of(workspace.blobs.pieces(name)), name):
            raise IntegrityError(
                f"result {result.id} rests on blob {name}, whose bytes were changed"
            )


def summed_up(result: Result, blobs: BlobStore | None) -> Cited:
    """Return a result as the lifecycle reads it."""
    kinds = {
        evidence.checks["suite"]: evidence.checks["kind"]
        for evidence in result.evidence
        if {"suite", "kind"} <= evidence.checks.keys()
    }
    excused: dict[str | None, list[str]] = {}
    for finding in result.findings:
        if finding.verdict in _EXCUSED:
            suite = finding.rule.rpartition(".")[0]
            excused.setdefault(suite if suite in kinds else None, []).append(finding.rule)
    answered = answer_time_of(result)
    return Cited(
        id=result.id,
        verdict=result.verdict,
        candidate_digest=result.candidate.digest if result.candidate else None,
        baseline_digest=result.baseline.digest if result.baseline else None,
        pack=identify_result_pack(result, blobs),
        suites=tuple(
            CitedSuite(suite, kind, tuple(excused.get(suite, ())))
            for suite, kind in sorted(kinds.items())
        ),
        excused=tuple(excused.get(None, ())),
        answered_at=None if answered is None else answered.at,
        is_of_lane=blobs is not None and pack_kind(result, blobs) == LANE,
    )
