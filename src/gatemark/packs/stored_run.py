"""Judge a pack again from what is stored with its result: pack, rows and answers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import IncomparableError, IntegrityError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.result import PACK_BLOB, Result
from gatemark.evidence.exam import ExamOutcome
from gatemark.evidence.rows import Row, Snapshot, stored_snapshot
from gatemark.ledger.port import BlobStore
from gatemark.packs.answering import add_replies
from gatemark.packs.answers import Answer, ItemKey
from gatemark.packs.comparing import mark_unjudged_answers
from gatemark.packs.conditions import read_conditions
from gatemark.packs.embeddings import Embedded, name_vectors, read_embedded
from gatemark.packs.exam_suites import (
    SuiteOutcome,
    build_suite_options,
    examine_suite,
    run_suite,
    write_evidence_files,
)
from gatemark.packs.graders import RecordedGraders
from gatemark.packs.judge import PackDecision, judge_pack
from gatemark.packs.judge_qualification import SuiteQualification, qualify_judges
from gatemark.packs.judge_replies import Graded, name_replies, read_graded
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.pack import ScorerSpec, SuiteSpec, read_pack
from gatemark.packs.pack_file import (
    BASELINE,
    CANDIDATE,
    OpenPack,
    SuiteFiles,
    build_scorer,
    find_suite_plugin,
)
from gatemark.packs.questions import make_asked_rows, make_sample
from gatemark.packs.recorded_scores import RecordedScores, add_recorded_scores, read_recorded_scores
from gatemark.packs.run import PackEvidence
from gatemark.packs.sample_lines import PART_MARK, read_sample_lines
from gatemark.packs.seal import ROWS_SUFFIX, name_labels
from gatemark.scorers.combined import NAME as COMBINED
from gatemark.scorers.recorded import NAME as RECORDED_SCORER
from gatemark.scorers.scorer import Scorable, scorers
from gatemark.targets.recorded import UNSCORED
from gatemark.workspace import Workspace

MOST_LISTED: Final = 20
T = TypeVar("T")


class JudgedAgain(msgspec.Struct, frozen=True):
    """A result judged again: what differs apart from the decision, and what was not checked."""

    judged: PackDecision
    differences: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()


def rejudge_pack(blobs: BlobStore, result: Result) -> JudgedAgain:
    """Judge the stored answers by the stored pack; targets are not called."""
    data = {blob.name: blobs.get(blob.digest) for blob in result.blobs}
    opened = _open_stored_pack(result, data)
    differences: list[str] = []
    unjudged: list[str] = []
    arms: dict[str, dict[str, tuple[Answer, ...]]] = {}
    for arm in (CANDIDATE, BASELINE):
        if any(name.endswith(f".{arm}.jsonl") for name in data):
            arms[arm] = _read_arm(opened, arm, data, differences, unjudged)
    graded = _read_replies(opened, data)
    for suite in opened.pack.suites:
        if suite.comparing_judge is not None and CANDIDATE in arms:
            seen = arms[CANDIDATE][suite.id]
            arms[CANDIDATE][suite.id] = mark_unjudged_answers(seen, graded[suite.id])
    gathered = PackEvidence(
        candidate=arms.get(CANDIDATE, {}),
        baseline=arms.get(BASELINE),
        files=tuple(
            EvidenceFile(blob.name, blob.digest, len(data[blob.name]))
            for blob in result.blobs
            if blob.name.endswith((f".{CANDIDATE}.jsonl", f".{BASELINE}.jsonl"))
        ),
        exams=_run_exams_again(opened, result, blobs),
        qualifications=_qualify_again(opened, result, blobs, data),
        graded=graded,
        limit=read_limit(result),
        conditions=read_conditions(result),
    )
    judged = judge_pack(opened, gathered, waivers=result.waivers, now=result.finished_at)
    return JudgedAgain(judged, tuple(differences), tuple(unjudged))


def _read_arm(
    opened: OpenPack,
    arm: str,
    data: Mapping[str, bytes],
    differences: list[str],
    unjudged: list[str],
) -> dict[str, tuple[Answer, ...]]:
    conditions = {}
    for suite in opened.pack.suites:
        if suite.dataset is None:
            continue
        name = f"{suite.id}.{arm}.jsonl"
        samples = read_sample_lines(data.get(name, b""), name)
        rows = {row.id: row for row in make_asked_rows(suite.kind, opened.snapshots[suite.id].rows)}
        recorded = read_recorded_scores(samples, sealed=True) if suite.is_scored_by_log else {}
        conditions[suite.id] = _read_answers(samples, name, rows, recorded)
        graded = _read_if_kept(name_replies(suite.id, arm), data, read_graded)
        vectors = _read_if_kept(name_vectors(suite.id, arm), data, read_embedded)
        found, open_items = _score_again(
            suite, conditions[suite.id], rows, graded or vectors, recorded
        )
        differences.extend(f"{name}: {why}" for why in found[:MOST_LISTED])
        unjudged.extend(f"{name}: {why}" for why in open_items)
    for suite in opened.pack.suites:
        if suite.source is not None:
            conditions[suite.id] = conditions[suite.source]
    return conditions


def _read_if_kept(
    name: str, data: Mapping[str, bytes], read: Callable[[bytes, str], T]
) -> T | None:
    return read(data[name], name) if name in data else None


def _run_exams_again(opened: OpenPack, result: Result, blobs: BlobStore) -> dict[str, SuiteOutcome]:
    """Run every exam over evidence files again, over the stored files."""
    outcomes = {}
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        for suite in opened.pack.suites:
            if suite.evidence is not None:
                kept = write_evidence_files(result, suite, blobs, Path(folder))
                files = SuiteFiles(kept[CANDIDATE], kept.get(BASELINE))
                outcomes[suite.id] = examine_suite(Workspace(jobs=1), suite, files)
    return outcomes


def run_suites_again(
    blobs: BlobStore, result: Result, kind: str
) -> Iterator[tuple[dict[str, Any], ExamOutcome]]:
    """Yield the evidence suites of one kind, examined again, with their options."""
    kept = {blob.name: blob.digest for blob in result.blobs}
    pack = read_pack(blobs.get(kept[PACK_BLOB]), result.pack.digest, PACK_BLOB)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        for suite in pack.suites:
            if suite.evidence is None or suite.kind != kind:
                continue
            files = write_evidence_files(result, suite, blobs, Path(folder))[CANDIDATE]
            options = build_suite_options(suite)
            yield options, run_suite(kind, options, files, Workspace(jobs=1).engine)


def _qualify_again(
    opened: OpenPack, result: Result, blobs: BlobStore, data: Mapping[str, bytes]
) -> dict[str, SuiteQualification]:
    def labels(name: str) -> Snapshot:
        kept = name_labels(name)
        if kept not in data:
            raise IncomparableError(f"the labels of judge {name} were not kept with it")
        return _read_stored_rows(opened.pack.judges[name].labels, data[kept], kept)

    graders = RecordedGraders(result, blobs)
    return asyncio.run(qualify_judges(opened.pack, graders, labels))


def _read_replies(opened: OpenPack, data: Mapping[str, bytes]) -> dict[str, Graded]:
    kept = {}
    for suite in opened.pack.suites:
        name = name_replies(suite.id, CANDIDATE)
        if name in data:
            kept[suite.id] = read_graded(data[name], name)
        elif suite.comparing_judge is not None:
            raise IncomparableError(f"the replies of the judge to {suite.id} were not kept with it")
    return kept


def _open_stored_pack(result: Result, data: Mapping[str, bytes]) -> OpenPack:
    pack = read_pack(data[PACK_BLOB], result.pack.digest, PACK_BLOB)
    references = {
        account.checks["suite"]: account.checks["snapshot"]
        for account in result.evidence
        if "snapshot" in account.checks
    }
    snapshots: dict[str, Snapshot] = {}
    for suite in pack.suites:
        if suite.dataset is not None:
            name = suite.id + ROWS_SUFFIX
            if name not in data or suite.id not in references:
                raise IncomparableError(f"the rows of suite {suite.id} were not kept with it")
            snapshots[suite.id] = _read_snapshot(references[suite.id], data[name], name)
    for suite in pack.suites:
        if suite.source is not None:
            snapshots[suite.id] = snapshots[suite.source]
    # The pack's folder is not stored; scorers in it are not run again.
    return OpenPack(pack, Path(), snapshots)


def _read_snapshot(reference: str, lines: bytes, place: str) -> Snapshot:
    name = reference.rpartition(f"@{DIGEST_PREFIX}")[0]
    snapshot = _read_stored_rows(name, lines, place)
    if snapshot.reference != reference:
        raise IntegrityError(f"{place}: are not the rows of {reference}")
    return snapshot


def _read_stored_rows(name: str, lines: bytes, place: str) -> Snapshot:
    try:
        return stored_snapshot(name, lines)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"{place}: cannot be read: {error}") from error


def _read_answers(
    samples: Sequence[Mapping[str, Any]],
    place: str,
    rows: Mapping[str, Row],
    recorded: Mapping[ItemKey, RecordedScores],
) -> tuple[Answer, ...]:
    answers = []
    for sample in samples:
        if sample["id"] not in rows:
            raise IntegrityError(f"{place}: answers {sample['id']!r}, which is not a row")
        row = rows[sample["id"]]
        error = sample["error"]
        kind = None if error is None else error["kind"]
        scores = sample["scores"]
        kept = recorded.get((row.id, sample["epoch"])) if scores else None
        parts = {
            name.partition(PART_MARK)[2]: value
            for name, value in scores.items()
            if name.startswith(COMBINED + PART_MARK)
        }
        name = RECORDED_SCORER if kept else COMBINED if parts else next(iter(scores), "")
        score = scores.get(name)
        answers.append(
            Answer(
                id=row.id,
                epoch=sample["epoch"],
                output=sample["output"],
                score=score,
                reason=None if error is None else error["message"],
                error=None if kind == UNSCORED else kind,
                confidence=sample["confidence"],
                latency_ms=sample["latency_ms"],
                cluster=row.cluster,
                tags=row.tags,
                scored_by=None if kept is None else kept.scored_by,
                cost=sample.get("cost"),
                tokens=sample.get("tokens"),
                parts=parts if name == COMBINED else {},
            )
        )
    return tuple(answers)


def _score_again(
    suite: SuiteSpec,
    answers: tuple[Answer, ...],
    rows: Mapping[str, Row],
    graded: Graded | Embedded | None,
    recorded: Mapping[ItemKey, RecordedScores],
) -> tuple[list[str], list[str]]:
    """Return scores that differ when computed again, and what could not be scored again."""
    spec = suite.scorer or find_suite_plugin(suite).scorer
    name = spec.name if isinstance(spec, ScorerSpec) else str(spec)
    if scorers().get(name).places:
        return [], [f"scorer {name} lives in the pack's folder and was not run again"]
    function, identity = build_scorer(suite, Path())
    differences, unknown = [], 0
    for answer in answers:
        if answer.error is not None:
            continue
        row = rows[answer.id]
        item = Scorable(row.id, row.input, row.target, answer.output, make_sample(row))
        if isinstance(graded, Embedded):
            item = graded.recorded(item)
        elif graded is not None:
            item = add_replies(item, graded, (answer.id, answer.epoch))
        found = function(add_recorded_scores(item, recorded.get((answer.id, answer.epoch))))
        if found.value == answer.score:
            continue
        if _has_number(answer.output):
            # Canonical bytes do not distinguish 1.0 from 1, but a scorer may.
            unknown += 1
            continue
        differences.append(
            f"{answer.id!r} has the score {answer.score}, {identity['scorer']} gives {found.value}"
        )
    notes = [f"{unknown} scores rest on how a number was written"] if unknown else []
    return differences, notes


def _has_number(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_number, value.values()))
    if isinstance(value, list):
        return any(map(_has_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)
