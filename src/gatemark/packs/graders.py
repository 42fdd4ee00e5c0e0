"""Who grades: the judges and embedding models of a pack, or their stored replies.

Replies are evidence: they are stored with the result, and judging again reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from gatemark.core.errors import UsageError
from gatemark.core.result import Result
from gatemark.evidence.exam_suite import suites
from gatemark.ledger.port import BlobStore
from gatemark.packs.embeddings import Embedded, make_embedding_calls, name_vectors, read_embedded
from gatemark.packs.judge_replies import Graded, Items, name_replies, read_graded
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.packs.suites.suite import PackSuite
from gatemark.scorers.judge.grading import NAME as JUDGE_SCORER
from gatemark.scorers.judge.grading import JudgeOptions
from gatemark.scorers.judge.prompt import JudgeTask
from gatemark.scorers.scorer import scorers
from gatemark.targets.journal import Reuse


def find_judge_task(suite: SuiteSpec) -> JudgeTask:
    """Return what a suite asks its judge: by its kind, or by its scorer."""
    plugin = suites().get(suite.kind)
    if isinstance(plugin, PackSuite) and plugin.judge_task is not None:
        return plugin.judge_task(suite)
    if not isinstance(suite.scorer, ScorerSpec) or suite.scorer.name != JUDGE_SCORER:
        raise UsageError(f"suite {suite.id} asks a judge, so its scorer must be {JUDGE_SCORER!r}")
    return cast("JudgeOptions", scorers().get(JUDGE_SCORER).options_from(suite.scorer.options))


class Graders(ABC):
    """Returns the judge's replies about the items of a suite; nothing is asked by default."""

    @abstractmethod
    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        """Return the judge's replies about the items of an arm, or about labelled items."""

    @abstractmethod
    async def embed(self, suite: SuiteSpec, place: str, items: Items) -> Embedded:
        """Return the vectors of the items' texts, for a suite that scores with embeddings."""

    def spent(self, *_places: str) -> tuple[int, float | None]:
        """Calls made and money spent, on these places or on all; None for an unknown cost."""
        return 0, 0.0

    def reuse(self) -> tuple[Reuse, bool]:
        """What may be reused from journals, and whether a key authenticates it."""
        return "nothing", False

    def reused_counts(self, *_places: str) -> dict[str, int]:
        """Return how many replies of judges and embedding models came from an earlier run."""
        return {}

    def changed_files(self) -> dict[str, tuple[str, ...]]:
        """Return the files of each judge that changed since it was opened."""
        return {}

    @abstractmethod
    async def close(self) -> None:
        """Close what was opened."""


class RecordedGraders(Graders):
    """The replies of judges that are stored with a result."""

    def __init__(self, result: Result, blobs: BlobStore) -> None:
        self._id = result.id
        self._digests = {blob.name: blob.digest for blob in result.blobs}
        self._blobs = blobs

    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        name = name_replies(suite.id, place)
        if name not in self._digests:
            raise UsageError(f"result {self._id} holds no replies of a judge to {suite.id!r}")
        kept = read_graded(self._blobs.get(self._digests[name]), name)
        return Graded(kept.judge, {key: kept.replies.get(key, ()) for key in items})

    async def embed(self, suite: SuiteSpec, place: str, items: Items) -> Embedded:
        name = name_vectors(suite.id, place)
        if name not in self._digests:
            raise UsageError(f"result {self._id} holds no vectors of the answers to {suite.id!r}")
        kept = read_embedded(self._blobs.get(self._digests[name]), name)
        asked = {call.id for call in make_embedding_calls(items.values())}
        return Embedded(kept.model, {key: kept.vectors[key] for key in asked & set(kept.vectors)})

    async def close(self) -> None:
        """Do nothing: no connection is open."""
