"""Read confidences: lines of their own, or samples with a confidence and a score of 0 or 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.progress import Progress
from gatemark.core.record import Form
from gatemark.evidence.inputs import digest_content, normalize_id, normalize_ids
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import NumberedRecord
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.source import Source, digest_source, opened_sources
from gatemark.evidence.whole_file import admitted_batches
from gatemark.samples.importer import SAMPLE_SCHEMA
from gatemark.samples.pairing import score_names
from gatemark.samples.read_samples import is_own_file

NO_CONFIDENCE, NO_SCORE, ERRORED = "no_confidence", "no_score", "errored"
COPIED, UNEVEN, UNASKED = "copied_input", "missing_epoch", "no_input_while_others_have_one"

Item = tuple[float | None, bool | None]
"""A confidence and whether the answer was correct, as the measure takes them."""


class ConfidenceLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One answer: its stated confidence, and whether it was correct."""

    id: Annotated[str, Meta(pattern=r"\S", max_length=512)]
    confidence: Annotated[float, Meta(ge=0, le=1)]
    correct: bool


CONFIDENCE_FORM: Final = Form(
    name="confidence",
    type=ConfidenceLine,
    marks=frozenset({"id", "confidence", "correct"}),
    identity="id",
    good=({"id": "q1", "confidence": 0.8, "correct": True},),
    bad=(),
)


class Confidences(msgspec.Struct, frozen=True):
    """The confidences of a file, whether each answer was correct, and what could not be used."""

    confidence: list[float]
    correct: list[bool]
    excluded: dict[str, int]
    file: EvidenceFile


def read_confidences(
    path: str, choices: ReadingChoices, *, score: str | None = None
) -> Confidences:
    """Read every item of a file that has a confidence and an outcome."""
    excluded: Counter[str] = Counter()
    found: list[Item] = []
    with opened_sources((path,), choices.limits) as (source,):
        reading = ConfidenceReader(source, score, choices)
        for items in reading.read_items(excluded, None):
            found.extend(items)
        file = digest_source(source)
    usable = [(c, right) for c, right in found if c is not None and right is not None]
    return Confidences(
        confidence=[c for c, _ in usable],
        correct=[right for _, right in usable],
        excluded=dict(sorted(excluded.items())),
        file=file,
    )


class ConfidenceReader:
    """A file read as items: confidence lines, or samples with a score of 0 or 1.

    An input that is asked in several epochs has an item for each. One that was asked less often
    than another lacks epochs: how well confidences fit would depend on what was asked again. The
    input of an earlier id under another one is a copy, and left out. Where some samples have an
    input, one without may be a copy.
    """

    def __init__(self, source: Source, score: str | None, choices: ReadingChoices) -> None:
        self._source = source
        self._choices = choices
        self._is_samples = is_own_file(source, choices)
        if score is not None and not self._is_samples:
            raise UsageError(f"{source.name}: --score is for {SAMPLE_SCHEMA} files")
        self.score = score
        self._is_named = score is not None
        self.received = 0
        self._asked: dict[int, str] = {}
        self._epochs: Counter[str] = Counter()
        self._unasked: set[str] = set()

    @property
    def input_count(self) -> int:
        """The number of inputs with a confidence and an outcome."""
        return len(self._epochs)

    def read_items(
        self, excluded: Counter[str], on_progress: Progress | None
    ) -> Iterator[list[Item]]:
        """Yield the items in batches; count those without a confidence or an outcome."""
        form = schemas().get(SAMPLE_SCHEMA).form("sample") if self._is_samples else CONFIDENCE_FORM
        graded: list[str] = []
        names: set[str] = set()
        for batch in admitted_batches(self._source, form, self._choices, on_progress):
            self.received += len(batch)
            if not self._is_samples:
                self._epochs.update(normalize_ids([record.id for _, record in batch]))
                yield [(record.confidence, record.correct) for _, record in batch]
                continue
            names.update(name for _, record in batch for name in record.scores)
            self._settle_score(names)
            yield list(self._yield_judgeable(batch, excluded, graded))
        if graded:
            raise BadInputError(
                tuple(graded[: self._choices.max_errors]),
                unlisted_count=max(0, len(graded) - self._choices.max_errors),
            )
        is_silent = excluded[ERRORED] == self.received
        most = max(self._epochs.values(), default=0)
        if uneven := most * len(self._epochs) - self._epochs.total():
            excluded[UNEVEN] = uneven
        if self._asked and (unasked := self._unasked.difference(self._asked.values())):
            excluded[UNASKED] = len(unasked)
        if self._is_samples and self.score not in names and not is_silent:
            wanted = "score" if self.score is None else f"score {self.score!r}"
            raise UsageError(f"{self._source.name}: has no {wanted} (scores: {score_names(names)})")

    def _settle_score(self, names: set[str]) -> None:
        if self._is_named:
            return
        if len(names) > 1:
            raise UsageError(
                f"{self._source.name}: has several scores, name one with --score: "
                f"{score_names(names)}"
            )
        self.score = min(names, default=None)

    def _yield_judgeable(
        self, batch: list[NumberedRecord], excluded: Counter[str], graded: list[str]
    ) -> Iterator[Item]:
        for line, sample in batch:
            score = None if self.score is None else sample.scores.get(self.score)
            name, content = normalize_id(sample.id), digest_content(sample.input)
            if content is not None and self._asked.setdefault(content, name) != name:
                excluded[COPIED] += 1
            elif sample.error is not None:
                excluded[ERRORED] += 1
            elif sample.confidence is None:
                excluded[NO_CONFIDENCE] += 1
            elif score is None:
                excluded[NO_SCORE] += 1
            elif score not in (0, 1):
                graded.append(
                    f"{self._source.name}:{line}: a score must be 0 or 1 to be right or wrong, "
                    f"got {score:g} at $.scores[{self.score!r}]"
                )
            else:
                self._epochs[name] += 1
                if content is None:
                    self._unasked.add(name)
                yield sample.confidence, score == 1
