"""Judge a run again from what is stored with its result: pack, rows, answers and evidence."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gatemark.core.errors import IncomparableError
from gatemark.core.result import PACK_BLOB, Result, answer_time_of
from gatemark.evidence.exam import ExamOutcome
from gatemark.evidence.rows import Snapshot
from gatemark.ledger.port import BlobStore
from gatemark.packs.answer_time import list_later_times
from gatemark.packs.conditions import read_conditions
from gatemark.packs.evidence_files import SuiteFiles, write_evidence_files
from gatemark.packs.exam_suites import (
    SuiteOutcome,
    build_suite_options,
    examine_suite,
    run_suite,
)
from gatemark.packs.graders import RecordedGraders
from gatemark.packs.judge import JudgedAgain, judge_run
from gatemark.packs.judge_qualification import SuiteQualification, qualify_judges
from gatemark.packs.kept_targets import list_other_subjects
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.origin import BASELINE_CHOSEN, CELL, list_first_page
from gatemark.packs.pack import read_pack
from gatemark.packs.pack_file import BASELINE, CANDIDATE, OpenPack
from gatemark.packs.run import AnsweredRun, Claims, Run
from gatemark.packs.stored_answers import read_stored_arm
from gatemark.packs.stored_pack import make_title, name_labels, open_stored_pack, read_stored_rows
from gatemark.workspace import Workspace


def rejudge_pack(blobs: BlobStore, result: Result) -> JudgedAgain:
    """Judge the stored answers by the stored pack; targets are not called."""
    data = {blob.name: blobs.get(blob.digest) for blob in result.blobs}
    opened = open_stored_pack(result, data)
    # A candidate always answers; where its answers are not stored, they are missing.
    arms = [CANDIDATE] if opened.snapshots else []
    arms += [BASELINE] if any(name.endswith(f".{BASELINE}.jsonl") for name in data) else []
    stored = {arm: read_stored_arm(opened, arm, data) for arm in arms}
    answered = AnsweredRun(
        Run(
            opened=opened,
            started_at=result.started_at,
            exams=_run_exams_again(opened, result, blobs),
            limit=read_limit(result),
            waivers=result.waivers,
            claims=Claims(
                baseline_how=result.runtime.get(BASELINE_CHOSEN), cell=result.runtime.get(CELL)
            ),
        ),
        {arm: one.answers for arm, one in stored.items()},
        _qualify_again(opened, result, blobs, data),
        read_conditions(result),
        answer_time_of(result),
    )
    return JudgedAgain(
        judge_run(answered, now=result.finished_at),
        differences=(
            *list_other_subjects(result, opened.pack, data, stored),
            *list_later_times(result, data),
            *(why for one in stored.values() for why in one.differences),
        ),
        unjudged=tuple(why for one in stored.values() for why in one.unjudged),
        title=make_title(opened.pack),
        caveats=list_first_page(answered),
    )


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
        return read_stored_rows(opened.pack.judges[name].labels, data[kept], kept)

    graders = RecordedGraders(result, blobs)
    return asyncio.run(qualify_judges(opened.pack, graders, labels))
