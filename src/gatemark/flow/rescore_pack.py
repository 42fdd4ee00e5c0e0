"""A pack judged again from what was kept with its result: pack, rows and answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.answers import Answer
from gatemark.core.canonical import DIGEST_PREFIX, digest
from gatemark.core.dataset import Row, Snapshot, freeze
from gatemark.core.errors import IncomparableError, IntegrityError
from gatemark.core.evidence import EvidenceFile
from gatemark.core.pack import Pack, ScorerSpec, SuiteSpec
from gatemark.core.result import Result
from gatemark.core.scoring import Scorable
from gatemark.flow.pack_arms import (
    UNSCORED,
    read_sample_lines,
    sample_of,
    scorer_of,
    suite_plugin,
)
from gatemark.flow.pack_data import OpenPack
from gatemark.flow.pack_judge import Judged, judge_pack
from gatemark.flow.plugins import scorers
from gatemark.ledger.port import BlobStore

PACK_BLOB: Final = "pack.json"
ROWS_SUFFIX: Final = ".rows.jsonl"
MOST_LISTED: Final = 20


class JudgedAgain(msgspec.Struct, frozen=True):
    """A pack judged again, and what was noticed on the way."""

    judged: Judged
    differences: tuple[str, ...]
    unjudged: tuple[str, ...]


def kept_definition(opened: OpenPack) -> dict[str, bytes]:
    """What must be kept so that a pack can be judged again: itself and its rows."""
    kept = {PACK_BLOB: msgspec.json.encode(opened.pack)}
    for suite in opened.pack.suites:
        if suite.source is None:
            rows = opened.snapshots[suite.id].rows
            kept[suite.id + ROWS_SUFFIX] = b"".join(
                msgspec.json.encode(row) + b"\n" for row in rows
            )
    return kept


def rejudge_pack(blobs: BlobStore, result: Result) -> JudgedAgain:
    """Judge the kept answers by the kept pack; targets are not called."""
    data = {blob.name: blobs.get(blob.digest) for blob in result.blobs}
    opened = _opened(result, data)
    answering = [suite for suite in opened.pack.suites if suite.source is None]
    differences: list[str] = []
    unjudged: list[str] = []
    arms: dict[str, dict[str, tuple[Answer, ...]]] = {}
    for arm in ("candidate", "baseline"):
        if not any(name.endswith(f".{arm}.jsonl") for name in data):
            continue
        arms[arm] = {}
        for suite in answering:
            name = f"{suite.id}.{arm}.jsonl"
            rows = {row.id: row for row in opened.snapshots[suite.id].rows}
            answers = _answers(data.get(name, b""), name, rows)
            arms[arm][suite.id] = answers
            found, open_items = _scored_again(suite, answers, rows)
            differences.extend(f"{name}: {why}" for why in found[:MOST_LISTED])
            unjudged.extend(f"{name}: {why}" for why in open_items)
        for suite in opened.pack.suites:
            if suite.source is not None:
                arms[arm][suite.id] = arms[arm][suite.source]
    files = [
        EvidenceFile(blob.name, blob.digest, len(data[blob.name]))
        for blob in result.blobs
        if blob.name.endswith((".candidate.jsonl", ".baseline.jsonl"))
    ]
    judged = judge_pack(
        opened,
        arms["candidate"],
        arms.get("baseline"),
        files,
        waivers=result.waivers,
        now=result.finished_at,
    )
    return JudgedAgain(judged, tuple(differences), tuple(unjudged))


def _opened(result: Result, data: Mapping[str, bytes]) -> OpenPack:
    try:
        pack = msgspec.json.decode(data[PACK_BLOB], type=Pack)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"{PACK_BLOB}: cannot be read: {error}") from error
    if digest(pack) != result.pack.digest:
        raise IntegrityError(f"{PACK_BLOB}: is not the pack that the result names")
    references = {
        account.checks["suite"]: account.checks["snapshot"] for account in result.evidence
    }
    snapshots: dict[str, Snapshot] = {}
    for suite in pack.suites:
        if suite.source is None:
            name = suite.id + ROWS_SUFFIX
            if name not in data or suite.id not in references:
                raise IncomparableError(f"the rows of suite {suite.id} were not kept with it")
            snapshots[suite.id] = _snapshot(references[suite.id], data[name], name)
    for suite in pack.suites:
        if suite.source is not None:
            snapshots[suite.id] = snapshots[suite.source]
    # Nothing of the pack's folder is kept; scorers that live there are not run again.
    return OpenPack(pack, Path(), snapshots)


def _snapshot(reference: str, lines: bytes, place: str) -> Snapshot:
    try:
        rows = tuple(msgspec.json.decode(line, type=Row) for line in lines.splitlines())
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"{place}: cannot be read: {error}") from error
    name = reference.rpartition(f"@{DIGEST_PREFIX}")[0]
    snapshot = freeze(name, rows)
    if snapshot.reference != reference:
        raise IntegrityError(f"{place}: are not the rows of {reference}")
    return snapshot


def _answers(data: bytes, place: str, rows: Mapping[str, Row]) -> tuple[Answer, ...]:
    answers = []
    for sample in read_sample_lines(data, place):
        if sample["id"] not in rows:
            raise IntegrityError(f"{place}: answers {sample['id']!r}, which is no row")
        row = rows[sample["id"]]
        error = sample["error"]
        kind = None if error is None else error["kind"]
        scores = sample["scores"]
        answers.append(
            Answer(
                id=row.id,
                epoch=sample["epoch"],
                output=sample["output"],
                score=next(iter(scores.values())) if scores else None,
                reason=None if error is None else error["message"],
                error=None if kind == UNSCORED else kind,
                confidence=sample["confidence"],
                latency_ms=sample["latency_ms"],
                cluster=row.cluster,
                tags=row.tags,
            )
        )
    return tuple(answers)


def _scored_again(
    suite: SuiteSpec, answers: tuple[Answer, ...], rows: Mapping[str, Row]
) -> tuple[list[str], list[str]]:
    """Scores that their answers do not give, and what could not be scored again."""
    spec = suite.scorer or suite_plugin(suite).scorer
    name = spec.name if isinstance(spec, ScorerSpec) else str(spec)
    if scorers().get(name).places:
        return [], [f"scorer {name} lives in the pack's folder and was not run again"]
    function, identity = scorer_of(suite, Path())
    differences, unknown = [], 0
    for answer in answers:
        if answer.error is not None:
            continue
        row = rows[answer.id]
        found = function(Scorable(row.id, row.input, row.target, answer.output, sample_of(row)))
        if found.value == answer.score:
            continue
        if _has_number(answer.output):
            # Canonical bytes do not tell 1.0 from 1, and a scorer may.
            unknown += 1
            continue
        differences.append(
            f"{answer.id!r} has the score {answer.score}, {identity['scorer']} gives {found.value}"
        )
    notes = [f"{unknown} scores rest on how a number was written"] if unknown else []
    return differences, notes


def _has_number(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_number, value.values()))
    if isinstance(value, list):
        return any(map(_has_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)
