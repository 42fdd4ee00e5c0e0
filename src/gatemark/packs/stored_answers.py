"""Read the answers of an arm as a result stores them, and check their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from gatemark.core.errors import IncomparableError, IntegrityError
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer, ItemKey
from gatemark.packs.arm_answers import ArmAnswers, name_lines
from gatemark.packs.comparing import mark_unjudged_answers
from gatemark.packs.embeddings import name_vectors, read_embedded
from gatemark.packs.judge_replies import Graded, name_replies, read_graded
from gatemark.packs.pack_file import CANDIDATE, OpenPack
from gatemark.packs.questions import make_asked_rows
from gatemark.packs.recorded_scores import RecordedScores, read_recorded_scores
from gatemark.packs.sample_lines import PART_MARK, read_sample_lines
from gatemark.packs.scores_again import score_again
from gatemark.scorers.combined import NAME as COMBINED
from gatemark.scorers.recorded import NAME as RECORDED_SCORER
from gatemark.targets.recorded import UNSCORED

MOST_LISTED: Final = 20
T = TypeVar("T")


class StoredArm(msgspec.Struct, frozen=True):
    """An arm as stored: its answers, scores that differ now, and scores that were not checked."""

    answers: ArmAnswers
    differences: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()


def read_stored_arm(opened: OpenPack, arm: str, data: Mapping[str, bytes]) -> StoredArm:
    """Read the answers of an arm to every suite; ``data`` are the files of the result."""
    answers, lines, graded, embedded = {}, {}, {}, {}
    differences: list[str] = []
    unjudged: list[str] = []
    for suite in opened.pack.suites:
        if suite.dataset is None:
            continue
        name = name_lines(suite.id, arm)
        if name in data:
            lines[suite.id] = data[name]
        samples = read_sample_lines(data.get(name, b""), name)
        rows = {row.id: row for row in make_asked_rows(suite.kind, opened.snapshots[suite.id].rows)}
        recorded = read_recorded_scores(samples, sealed=True) if suite.is_scored_by_log else {}
        answers[suite.id] = _read_answers(samples, name, rows, recorded)
        replies = _read_if_kept(name_replies(suite.id, arm), data, read_graded)
        vectors = _read_if_kept(name_vectors(suite.id, arm), data, read_embedded)
        if replies is not None:
            graded[suite.id] = replies
        if vectors is not None:
            embedded[suite.id] = vectors
        found, unknown = score_again(suite, answers[suite.id], rows, replies or vectors, recorded)
        differences.extend(f"{name}: {why}" for why in found[:MOST_LISTED])
        unjudged.extend(f"{name}: {why}" for why in unknown)
    for suite in opened.pack.suites:
        if suite.source is not None:
            answers[suite.id] = answers[suite.source]
    if arm == CANDIDATE:
        compared = _read_comparisons(opened, data)
        for suite_id, replies in compared.items():
            answers[suite_id] = mark_unjudged_answers(answers[suite_id], replies)
        graded |= compared
    stored = ArmAnswers(answers=answers, lines=lines, graded=graded, embedded=embedded)
    return StoredArm(stored, tuple(differences), tuple(unjudged))


def _read_comparisons(opened: OpenPack, data: Mapping[str, bytes]) -> dict[str, Graded]:
    """Return the replies of the judges that compared both arms' answers, by suite."""
    found = {}
    for suite in opened.pack.suites:
        if suite.comparing_judge is None:
            continue
        name = name_replies(suite.id, CANDIDATE)
        if name not in data:
            raise IncomparableError(f"the replies of the judge to {suite.id} were not kept with it")
        found[suite.id] = read_graded(data[name], name)
    return found


def _read_if_kept(
    name: str, data: Mapping[str, bytes], read: Callable[[bytes, str], T]
) -> T | None:
    return read(data[name], name) if name in data else None


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
