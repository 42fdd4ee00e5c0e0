"""Read samples from Gatemark's own files or other tools' logs, stored by column."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.progress import Progress
from gatemark.evidence.inputs import digest_content
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.rows import names_schema
from gatemark.evidence.source import Source
from gatemark.evidence.whole_file import admitted_batches
from gatemark.samples.importer import (
    SAMPLE_SCHEMA,
    ForeignSample,
    Imported,
    ReadOptions,
    import_files,
)
from gatemark.samples.records import Sample, SampleOrigin

AUTO: Final = "auto"
CLUSTER_FIELD: Final = "cluster"
TASK_HASH: Final = "task_hash"
DOC_HASH: Final = "doc_hash"
LABEL: Final = "label."
"""The beginning of a tag that holds what a tool wrote beside a score, or in place of one."""
VERDICTS: Final = {"pass": True, "fail": False}

Key = tuple[str, int]
"""The key of a sample: its id and its epoch."""


class SampleRequest(msgspec.Struct, frozen=True):
    """How to read one file.

    ``arm_flag`` is the option that selects an arm of this file, for messages; ``cluster`` is the
    name of a tag, or ``cluster`` for the field of that name.
    """

    tool: str = AUTO
    arm: str | None = None
    arm_flag: str = "--arm"
    id_path: str | None = None
    cluster: str | None = None
    columns: dict[str, str] = {}


class SampleSet:
    """The samples of one file: ids, errors, and each score separately.

    ``labels`` has the verdicts that the tool gave beside a score, as pass or fail. ``contents`` has
    hashes of what an item is (its target, its input, the hash its tool gave it), to check that two
    files are about the same items.
    """

    def __init__(self, name: str, tool: str) -> None:
        self.name = name
        self.tool = tool
        self.arm: str | None = None
        self.headline: str | None = None
        self.lineage: dict[str, str] = {}
        self.notes: tuple[str, ...] = ()
        self.refused: tuple[str, ...] = ()
        self.keys: dict[Key, None] = {}
        self.errors: dict[Key, str] = {}
        self.scores: dict[str, dict[Key, float]] = {}
        self.clusters: dict[Key, str] = {}
        self.origins: set[SampleOrigin] = set()
        self.labels: dict[str, dict[Key, bool]] = {}
        self.contents: dict[str, dict[Key, int]] = {"target": {}, "input": {}, DOC_HASH: {}}
        self.task_hashes: set[str] = set()

    @property
    def is_own(self) -> bool:
        """Whether it is a Gatemark file."""
        return self.tool == SAMPLE_SCHEMA

    @property
    def partial(self) -> list[str]:
        """Why the run is incomplete, if the tool's log says so."""
        return sorted({reason for origin in self.origins for reason in origin.partial})

    @property
    def contradictions(self) -> list[str]:
        """Where the tool's log contradicts itself."""
        return sorted({reason for origin in self.origins for reason in origin.contradictions})

    @property
    def by_position(self) -> bool:
        """Whether ids are positions, which depend on the order of items."""
        return any(origin.by_position for origin in self.origins)

    def is_like(self, other: SampleSet) -> bool:
        """Whether both write inputs and targets alike: the same format, or logs of one tool.

        A log that was imported before has the format of Gatemark, but the contents of its tool.
        """
        tools = [{origin.tool for origin in side.origins} for side in (self, other)]
        return self.tool == other.tool or (bool(tools[0]) and tools[0] == tools[1])

    def add(self, sample: Sample | ForeignSample, cluster: str | None) -> None:
        """Add one sample: a record or an imported row, which have the same fields."""
        key = (sample.id, sample.epoch)
        self.keys[key] = None
        if sample.error is not None:
            self.errors[key] = f"{sample.error.kind}: {sample.error.message}"
        for name, score in sample.scores.items():
            column = self.scores.setdefault(name, {})
            if score is not None:
                column[key] = score
        if cluster is not None:
            found = sample.cluster if cluster == CLUSTER_FIELD else sample.tags.get(cluster)
            if found is not None:
                self.clusters[key] = found
        for name, content in (("target", sample.target), ("input", sample.input)):
            if (digested := digest_content(content)) is not None:
                self.contents[name][key] = digested
        if sample.origin is not None:
            self.origins.add(sample.origin)
        if not sample.tags:
            return
        self._read_tags(key, sample.tags)

    def _read_tags(self, key: Key, tags: dict[str, str]) -> None:
        for name, text in tags.items():
            if name.startswith(LABEL) and text in VERDICTS:
                self.labels.setdefault(name.removeprefix(LABEL), {})[key] = VERDICTS[text]
        if (digested := digest_content(tags.get(DOC_HASH))) is not None:
            self.contents[DOC_HASH][key] = digested
        if TASK_HASH in tags:
            self.task_hashes.add(tags[TASK_HASH])


def read_samples(
    source: Source,
    request: SampleRequest,
    choices: ReadingChoices,
    on_progress: Progress | None = None,
) -> SampleSet:
    """Read the samples of a file in any format."""
    if request.tool == AUTO and not request.columns and is_own_file(source, choices):
        return _read_own_samples(source, request, choices, on_progress)
    found = _import_samples(source, request)
    if on_progress is not None:
        on_progress(source.byte_count, source.byte_count)
    return found


def is_own_file(source: Source, choices: ReadingChoices) -> bool:
    """Return whether the first readable record of a file is ``gatemark.sample/1``."""
    return names_schema(source, choices.limits, SAMPLE_SCHEMA)


def _read_own_samples(
    source: Source, request: SampleRequest, choices: ReadingChoices, on_progress: Progress | None
) -> SampleSet:
    if request.arm is not None:
        raise UsageError(
            f"{source.name}: {SAMPLE_SCHEMA} has no arms; leave out {request.arm_flag}"
        )
    form = schemas().get(SAMPLE_SCHEMA).form("sample")
    found = SampleSet(source.name, SAMPLE_SCHEMA)
    for batch in admitted_batches(source, form, choices, on_progress):
        for _, record in batch:
            found.add(record, request.cluster)
    return found


def _import_samples(source: Source, request: SampleRequest) -> SampleSet:
    if source.name != source.path:
        raise UsageError(
            f"{source.name}: standard input must be {SAMPLE_SCHEMA}; "
            "save another tool's log to a file"
        )
    options = ReadOptions(arm=request.arm, id_path=request.id_path, columns=dict(request.columns))
    try:
        (log,) = import_files([Path(source.path)], tool=request.tool, options=options)
    except BadInputError as error:
        raise BadInputError(
            tuple(problem.replace("--arm", request.arm_flag) for problem in error.problems),
            unlisted_count=error.unlisted_count,
        ) from error
    return _make_sample_set(source.name, log, request.cluster)


def _make_sample_set(name: str, log: Imported, cluster: str | None) -> SampleSet:
    found = SampleSet(name, log.tool)
    found.arm = log.arm
    found.headline = log.headline
    found.lineage = log.lineage
    found.notes = log.notes
    found.refused = tuple(f"{refusal.place}: {refusal.reason}" for refusal in log.refused)
    found.origins.add(log.origin)
    for sample in log.samples:
        found.add(sample, cluster)
    return found
