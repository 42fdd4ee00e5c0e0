"""Earlier runs as evidence: their decision files are read, judged and sealed with the result.

Every file of the role ``history`` is read as strictly as the scored records and judged by the
policy. Copies count once, and files that share records are refused. Then the decisions are scored
with the earlier runs beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, cast

import msgspec
import numpy as np
import numpy.typing as npt

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.exam import ExamOutcome, ExamRun
from gatemark.evidence.run_exam import (
    ExamJob,
    FoldedFiles,
    build_exam,
    examine_files,
    fold_each,
)
from gatemark.exams.advisory.findings import EarlierRun
from gatemark.exams.advisory.measure import AdvisoryExamState

DECISIONS: Final = "decisions"
HISTORY: Final = "history"
MAX_FILES: Final = 1_000


class EarlierFile(NamedTuple):
    """A decision file of earlier runs; ``ids`` are the hashed ids of its records, sorted."""

    file: EvidenceFile
    ids: npt.NDArray[np.uint64]
    runs: tuple[EarlierRun, ...]


class JudgesEarlierRuns(Protocol):
    """The part of the exam that knows of earlier runs."""

    earlier: tuple[EarlierFile, ...]

    def note_ids(self, hashes: bytearray) -> None:
        """Remember which records are scored."""

    def earlier_runs(
        self, state: AdvisoryExamState, evidence: str, *, lost: int
    ) -> tuple[EarlierRun, ...]:
        """Return the runs of a file of earlier decisions, judged by the policy."""


def examine_decisions(run: ExamRun) -> ExamOutcome:
    """Score decision files beside the files of earlier runs."""
    roles = set(run.roles)
    if DECISIONS not in roles or not roles <= {DECISIONS, HISTORY}:
        raise UsageError(f"{run.kind} reads files with the roles {DECISIONS!r} and {HISTORY!r}")
    own = replace(run, files=[given for given in run.files if given[0] == DECISIONS])
    exam = build_exam(ExamJob.of(own))
    paths = [path for role, path in run.files if role == HISTORY]
    if not paths:
        return examine_files(own, exam=exam)
    judge = cast(JudgesEarlierRuns, exam)
    files: list[EarlierFile] = []
    for read in fold_each(run, exam, paths):
        files.append(_earlier_file(read, judge))
        _refuse_shared_records(files)
    judge.earlier = tuple(files)
    outcome = examine_files(own, exam=exam, on_ids=judge.note_ids)
    evidence = msgspec.structs.replace(
        outcome.evidence, files=(*outcome.evidence.files, *(earlier.file for earlier in files))
    )
    return msgspec.structs.replace(outcome, evidence=evidence)


def _earlier_file(read: FoldedFiles, judge: JudgesEarlierRuns) -> EarlierFile:
    (file,) = read.files
    ids = np.unique(np.frombuffer(bytes(read.hashes), dtype="<u8"))
    if not read.accepted:
        raise BadInputError(f"{file.name}: contains no records")
    if len(ids) != read.accepted:
        raise BadInputError(f"{file.name}: some decision ids occur more than once")
    return EarlierFile(file, ids, judge.earlier_runs(read.state, file.digest, lost=read.rejected))


def _refuse_shared_records(files: Sequence[EarlierFile]) -> None:
    """Refuse files that share records: a copy with another run id is not a second run."""
    *others, last = files
    for other in others:
        shared = shared_count(other.ids, last.ids)
        if shared and other.file.digest != last.file.digest:
            raise BadInputError(
                f"{last.file.name}: has {shared} records that are in {other.file.name} too; "
                "leave out one of the two files"
            )


def shared_count(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> int:
    """How many ids two files have in common."""
    return len(np.intersect1d(left, right))
