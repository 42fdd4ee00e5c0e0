"""The decision files of earlier runs: copies count once, and no two may share records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.fold_files import FoldedFiles
from gatemark.plugins.advisory.earlier_runs import EarlierRun
from gatemark.plugins.advisory.exam_state import AdvisoryExamState


class EarlierFile(NamedTuple):
    """A decision file of earlier runs; ``ids`` are the hashed ids of its records, sorted."""

    file: EvidenceFile
    ids: npt.NDArray[np.uint64]
    runs: tuple[EarlierRun, ...]


class RunsDeriver(Protocol):
    """Returns the runs of a file from its state."""

    def __call__(
        self, state: AdvisoryExamState, evidence: str, *, lost: int
    ) -> tuple[EarlierRun, ...]: ...


def read_earlier_file(read: FoldedFiles, derive_runs: RunsDeriver) -> EarlierFile:
    """Return a file of earlier runs, judged like the scored ones."""
    (file,) = read.files
    ids = np.unique(np.frombuffer(bytes(read.hashes), dtype="<u8"))
    if not read.accepted:
        raise BadInputError(f"{file.name}: contains no records")
    if len(ids) != read.accepted:
        raise BadInputError(f"{file.name}: some decision ids occur more than once")
    return EarlierFile(file, ids, derive_runs(read.state, file.digest, lost=read.rejected))


def refuse_shared_records(files: Sequence[EarlierFile]) -> None:
    """Refuse files that share records: a copy with another run id is not a second run."""
    *others, last = files
    for other in others:
        shared = count_shared(other.ids, last.ids)
        if shared and other.file.digest != last.file.digest:
            raise BadInputError(
                f"{last.file.name}: has {shared} records that are in {other.file.name} too; "
                "leave out one of the two files"
            )


def count_shared(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> int:
    """Return how many ids two files have in common."""
    return len(np.intersect1d(left, right))
