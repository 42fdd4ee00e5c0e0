"""``gatemark import``: read other tools' logs, write ``gatemark.sample/1``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.progress import Progress
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.rows import frozen_rows
from gatemark.evidence.source import inspect_source
from gatemark.samples.importer import (
    SAMPLE_SCHEMA,
    TABLES,
    ClaimCheck,
    ForeignSample,
    Imported,
    LogExperiment,
    ReadOptions,
    find_tool_logs,
    get_importer,
    import_files,
    list_arms,
    to_record,
)
from gatemark.samples.prepare import Preparation, prepare_samples
from gatemark.samples.read_samples import AUTO, is_own_file

SUFFIX: Final = ".jsonl"
PIECE_LINES: Final = 1000
TRACES: Final = frozenset({"otlp", "langfuse"})


class LogSummary(msgspec.Struct, frozen=True):
    """The counts of one log: received == accepted + refused; errored samples are accepted."""

    files: tuple[str, ...]
    tool: str
    arm: str | None
    received: int
    accepted: int
    errored: int
    refused: int
    scores: tuple[str, ...]
    headline: str | None
    claimed: dict[str, float]
    checks: tuple[ClaimCheck, ...]
    notes: tuple[str, ...]
    refusals: tuple[str, ...]
    lineage: dict[str, str]


class ImportSummary(msgspec.Struct, frozen=True):
    """All logs of one import. ``output`` is null if nothing was written."""

    received: int
    accepted: int
    errored: int
    refused: int
    output: str | None
    logs: tuple[LogSummary, ...]
    redacted: int = 0
    repeats: int = 0
    not_drawn: int = 0
    unanswered: int = 0
    recipe: Preparation = Preparation()
    snapshot: str | None = None
    """The reference by which a pack's result cites the samples, if they are for replay."""


def import_logs(
    paths: Sequence[str],
    *,
    tool: str = AUTO,
    arm: str | None = None,
    id_path: str | None = None,
    columns: Mapping[str, str] | None = None,
    output: str | None = None,
    prepared: Preparation | None = None,
    choices: ReadingChoices | None = None,
    on_progress: Progress | None = None,
) -> ImportSummary:
    """Read logs and, if an output is named, write their samples sorted by id.

    If a row cannot be read, nothing is written, unless ``on_bad_line`` says to exclude it.
    """
    choices = choices or ReadingChoices()
    paths = [str(file) for path in paths for file in find_tool_logs(Path(path), tool)]
    check_output(paths, output)
    options = ReadOptions(arm=arm, id_path=id_path, columns=dict(columns or {}))
    _check_inputs(paths, TABLES if options.columns and tool == AUTO else tool, choices)
    logs = import_files([Path(path) for path in paths], tool=tool, options=options)
    if on_progress is not None:
        total = sum(inspect_source(path).byte_count for path in paths)
        on_progress(total, total)
    recipe = prepared or Preparation()
    made = prepare_samples(_order_samples(logs, paths), recipe)
    files = [tuple(paths)] if len(logs) < len(paths) else [(path,) for path in paths]
    summaries = tuple(_summarize_log(log, names) for log, names in zip(logs, files, strict=True))
    refused = sum(summary.refused for summary in summaries)
    written = None
    if output is not None and not (refused and choices.on_bad_line == "error"):
        write_whole(Path(output), _encode_lines(made.samples))
        written = output
    return ImportSummary(
        received=sum(summary.received for summary in summaries),
        accepted=sum(summary.accepted for summary in summaries),
        errored=sum(summary.errored for summary in summaries),
        refused=refused,
        output=written,
        logs=summaries,
        redacted=made.redacted,
        repeats=made.repeats,
        not_drawn=made.not_drawn,
        unanswered=made.unanswered,
        recipe=recipe,
        snapshot=_digest_snapshot(made.samples) if written and _is_replay(logs, recipe) else None,
    )


def _is_replay(logs: Sequence[Imported], recipe: Preparation) -> bool:
    """Return whether samples are for a replay suite (traces, or a draw) and need a digest."""
    return recipe.take is not None or any(log.tool in TRACES for log in logs)


def _digest_snapshot(samples: Sequence[ForeignSample]) -> str | None:
    """Return the digest of the samples as a data set, or None if they cannot be one."""
    if any(sample.epoch > 1 for sample in samples):
        return None
    try:
        return frozen_rows("samples", map(to_record, samples)).digest
    except BadInputError:
        return None


def read_arms_of_logs(paths: Sequence[str], *, tool: str = AUTO) -> tuple[LogExperiment, ...]:
    """The experiments inside some logs."""
    paths = [str(file) for path in paths for file in find_tool_logs(Path(path), tool)]
    _check_inputs(paths, tool, ReadingChoices())
    return list_arms([Path(path) for path in paths], tool=tool)


def _check_inputs(paths: Sequence[str], tool: str, choices: ReadingChoices) -> None:
    if tool != AUTO:
        get_importer(tool)
        return
    for path in paths:
        source = inspect_source(path)
        if is_own_file(source, choices):
            raise UsageError(
                f"{path}: is already {SAMPLE_SCHEMA}; check it with 'gatemark validate'"
            )


def check_output(paths: Sequence[str], output: str | None) -> None:
    """Raise if the output has the wrong extension, or is one of the logs."""
    if output is None:
        return
    if not output.endswith(SUFFIX):
        raise UsageError(f"samples are written as JSON Lines: {output!r} must end in {SUFFIX}")
    if any(Path(path).resolve() == Path(output).resolve() for path in paths):
        raise UsageError(f"{output}: is one of the logs; choose another output file")


def _order_samples(logs: Sequence[Imported], paths: Sequence[str]) -> list[ForeignSample]:
    """Return all samples sorted by id and epoch; raise if two logs share one."""
    owners: dict[tuple[str, int], int] = {}
    clashes = []
    for place, log in enumerate(logs):
        for sample in log.samples:
            first = owners.setdefault((sample.id, sample.epoch), place)
            if first != place:
                clashes.append(
                    f"{paths[place]}: id {sample.id!r}, epoch {sample.epoch} is also in "
                    f"{paths[first]}; import each log separately"
                )
    if clashes:
        raise BadInputError(tuple(clashes[:5]), unlisted_count=max(0, len(clashes) - 5))
    return sorted(
        (msgspec.structs.replace(one, origin=log.origin) for log in logs for one in log.samples),
        key=lambda sample: (sample.id, sample.epoch),
    )


def _encode_lines(samples: Sequence[ForeignSample]) -> Iterable[bytes]:
    encoder = msgspec.json.Encoder()
    for start in range(0, len(samples), PIECE_LINES):
        piece = samples[start : start + PIECE_LINES]
        yield encoder.encode_lines([to_record(sample) for sample in piece])


def _summarize_log(log: Imported, files: tuple[str, ...]) -> LogSummary:
    return LogSummary(
        files=files,
        tool=log.tool,
        arm=log.arm,
        received=log.received_count,
        accepted=len(log.samples),
        errored=log.errored_count,
        refused=len(log.refused),
        scores=tuple(sorted({name for sample in log.samples for name in sample.scores})),
        headline=log.headline,
        claimed=log.claimed,
        checks=log.checks,
        notes=log.notes,
        refusals=tuple(f"{refusal.place}: {refusal.reason}" for refusal in log.refused),
        lineage=log.lineage,
    )
