"""Inspect AI logs: `.json`, and `.eval` archives with deflate or zstd members.

Both say version 2, so the bytes decide which one it is.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.archive import ZIP, Archive
from gatemark.samples.foreign_json import NOT_FINITE, decode, find_key_paths, read_json_rows
from gatemark.samples.gathering import (
    Gathering,
    check_count,
    check_mean,
    make_error,
    make_log_importer,
    make_tags,
    score_number,
    shorten_value,
    sum_tokens,
)
from gatemark.samples.importer import (
    ForeignError,
    ForeignFile,
    ForeignSample,
    Imported,
    LogExperiment,
    ReadOptions,
    Refusal,
)

_MEMBERS: Final = ("_journal/", "samples/", "header.json", "summaries.json", "reductions.json")
_LETTERS: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_VERDICTS: Final = ("C", "I", "P")
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_MEANS: Final = frozenset({"accuracy", "mean"})
_TEXT_SCORERS: Final = frozenset(
    {"match", "includes", "pattern", "answer", "exact", "f1", "choice", "math"}
)
"""Scorers that ask no model."""


class _EditProvenance(msgspec.Struct):
    author: str | None = None
    reason: str | None = None
    timestamp: str | None = None


class _Edit(msgspec.Struct):
    value: object = "UNCHANGED"
    provenance: _EditProvenance | None = None


class _Score(msgspec.Struct):
    value: object = None  # after all edits
    history: list[_Edit] = []


class _Message(msgspec.Struct):
    content: object = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    stop_reason: str | None = None


class _Output(msgspec.Struct):
    completion: str | None = None  # not in old logs
    choices: list[_Choice] = []


class _Failure(msgspec.Struct):
    message: str = ""


class _LimitHit(msgspec.Struct):
    type: str = ""


class _Sample(msgspec.Struct):
    id: str | int
    epoch: int = 1
    input: object = None
    choices: list[object] | None = None
    target: object = None
    output: _Output | None = None
    scores: dict[str, _Score] | None = None
    error: _Failure | None = None
    invalidation: _EditProvenance | None = None
    limit: _LimitHit | None = None
    metadata: dict[str, object] = {}
    error_retries: list[msgspec.Raw] | None = None
    total_time: float | None = None
    model_usage: dict[str, dict[str, object]] = {}


class _Config(msgspec.Struct):
    epochs: int | None = None
    epochs_reducer: list[str] | None = None
    limit: object = None
    sample_id: object = None


class _Dataset(msgspec.Struct):
    name: str | None = None
    samples: int | None = None
    sample_ids: list[str | int] | None = None


class _Scorer(msgspec.Struct):
    name: str = ""
    options: dict[str, object] | None = None


class _Role(msgspec.Struct):
    model: str = ""


class _Spec(msgspec.Struct):
    task: str = ""
    model: str = ""
    created: str = ""
    config: _Config = msgspec.field(default_factory=_Config)
    dataset: _Dataset = msgspec.field(default_factory=_Dataset)
    packages: dict[str, object] = {}
    scorers: list[_Scorer] | None = None
    model_roles: dict[str, _Role] | None = None


class _Metric(msgspec.Struct):
    value: object = None


class _Total(msgspec.Struct):
    name: str = ""
    scorer: str = ""
    reducer: str | None = None
    params: dict[str, object] = {}
    metrics: dict[str, _Metric] = {}


class _Headline(msgspec.Struct):
    score: str | None = None


class _Results(msgspec.Struct):
    total_samples: int | None = None
    scores: list[_Total] = []
    headline: _Headline | None = None


class _Step(msgspec.Struct):
    solver: str = ""


class _Plan(msgspec.Struct):
    steps: list[_Step] = []


class _Log(msgspec.Struct):
    eval: _Spec
    status: str = "started"
    invalidated: bool | None = None
    results: _Results | None = None
    samples: list[msgspec.Raw] | None = None
    plan: _Plan = msgspec.field(default_factory=_Plan)


_Found = tuple[str, msgspec.Raw, _Sample | Refusal]


class _Run(NamedTuple):
    log: _Log
    rows: list[_Found]

    @property
    def samples(self) -> list[_Sample]:
        return [row for _, _, row in self.rows if isinstance(row, _Sample)]


def _sniff(head: bytes, filename: str) -> bool:
    """Recognise an `.eval` archive, or a JSON object with a status and an eval spec."""
    if head.startswith(ZIP):
        first_member = head[30:60].decode("utf-8", "replace")
        return filename.endswith(".eval") or first_member.startswith(_MEMBERS)
    return find_key_paths(head) >= {"status", "eval", "eval.task"}


def load_inspect(file: ForeignFile, options: ReadOptions) -> tuple[_Log, Iterator[_Found]]:
    """Return the log and its samples, each decoded or refused with its place."""
    if file.data.startswith(ZIP):
        return _open_archive(file, options)
    log = decode(file.data, _Log, file.name)
    if log.samples is None:
        raise BadInputError(f"{file.name}: the log contains no samples (log_samples was off)")
    return log, read_json_rows(log.samples, _Sample, f"{file.name}: samples")


def _open_archive(file: ForeignFile, options: ReadOptions) -> tuple[_Log, Iterator[_Found]]:
    archive = Archive(file, options.limits)
    spec = next((n for n in ("header.json", "_journal/start.json") if n in archive.names), None)
    if spec is None:
        raise BadInputError(
            f"{file.name}: a ZIP archive, but not an Inspect log: "
            "it has neither header.json nor _journal/start.json"
        )
    log = decode(archive.read(spec), _Log, f"{file.name}: {spec}")
    names = [n for n in archive.names if n.startswith("samples/") and n.endswith(".json")]
    if not names:
        raise BadInputError(f"{file.name}: the log contains no samples (log_samples was off)")
    return log, _read_archived(archive, names, file, keep=options.id_path is not None)


def _read_archived(
    archive: Archive, names: list[str], file: ForeignFile, *, keep: bool
) -> Iterator[_Found]:
    for name in names:
        content = archive.read(name)
        place = f"{file.name}: {name}"
        try:
            sample = decode(content, _Sample, place)
        except BadInputError as error:
            yield place, msgspec.Raw(), Refusal(place, str(error).removeprefix(f"{place}: "))
        else:
            # Decompressed bytes are large; keep them only if they contain the id.
            yield place, msgspec.Raw(content if keep else b""), sample


def _load(file: ForeignFile, gathering: Gathering) -> _Run:
    log, rows = load_inspect(file, gathering.options)
    return _Run(log, list(rows))


def _read_arms(run: _Run) -> tuple[LogExperiment, ...]:
    """Return one arm per epoch; without a chosen arm, all epochs are read."""
    counts = Counter(sample.epoch for sample in run.samples)
    return tuple(LogExperiment(f"epoch-{epoch}", counts[epoch]) for epoch in sorted(counts))


def _read(run: _Run, gathering: Gathering) -> Imported:
    """Read every sample and epoch, with edited scores and errors."""
    log, options = run.log, gathering.options
    gathering.version = make_tags(log.eval.packages).get("inspect_ai")
    if not run.rows:
        raise BadInputError(f"{gathering.place}: the log contains no samples")
    scored = any(sample.scores for sample in run.samples)
    if not scored:
        gathering.note("the log contains no scores")
    arm = None if options.arm is None else gathering.choose_arm(_read_arms(run))
    for place, raw, row in gathering.readable(run.rows):
        if arm is None or arm == f"epoch-{row.epoch}":
            _add(gathering, place, raw, row, scored=scored)
    _note_partial(log, gathering, {sample.id for sample in run.samples})
    if arm is None and options.id_path is None:
        _add_missing(gathering, log)
    if arm is None and log.results is not None:
        _check(gathering, log.results, list(gathering.samples))
    _note_gap(run, gathering, is_whole=arm is None)
    if log.invalidated:
        gathering.note_contradiction("its samples are scored, but the log is marked as invalidated")
    _note_scorers(log, gathering)
    gathering.lineage |= {
        "task": log.eval.task,
        "model": log.eval.model,
        "created": log.eval.created,
        "dataset": log.eval.dataset.name or "",
        "inspect_ai": gathering.version or "",
    }
    return gathering.finish(arm=arm, headline=_choose_headline(log, gathering))


def _note_partial(log: _Log, gathering: Gathering, ids: set[str | int]) -> None:
    """Mark a run that did not finish, or that ran only part of its data set."""
    config, size = log.eval.config, log.eval.dataset.samples
    if log.status != "success":
        gathering.partial(f"the run ended with status {log.status!r}, not 'success'")
    if config.limit is not None and not _is_whole_run(config.limit, size, len(ids)):
        of = "" if size is None else f" of {size} samples"
        gathering.partial(f"the run was cut with --limit {_format_limit(config.limit)}{of}")
    if config.sample_id is not None and (size is None or len(ids) < size):
        gathering.partial("the run was cut with --sample-id")


def _note_gap(run: _Run, gathering: Gathering, *, is_whole: bool) -> None:
    """Mark a log with fewer samples than its header counts, unless the gap is told already.

    Of a whole log, ids that are missing are samples with an error, and a total that the rows do not
    add up to is a contradiction.
    """
    log, present = run.log, len(run.rows)
    config, size = log.eval.config, log.eval.dataset.samples
    total = None if log.results is None else log.results.total_samples
    is_cut = config.limit is not None or config.sample_id is not None
    counts = [0 if is_cut or size is None else size * max(1, config.epochs or 1), total or 0]
    has_ids = bool(log.eval.dataset.sample_ids) and gathering.options.id_path is None
    is_told = is_whole and (has_ids or (total is not None and total != present))
    if present < max(counts) and not is_told:
        gathering.partial(
            f"the log has {present} of the {max(counts)} samples that its header counts"
        )


def _note_scorers(log: _Log, gathering: Gathering) -> None:
    """Record how each score was made: options of its scorer, who judged, how epochs are reduced."""
    listed = log.eval.scorers
    if listed is None:
        totals = log.results.scores if log.results is not None else []
        listed = [_Scorer(total.scorer, total.params) for total in totals if total.scorer]
    seen: Counter[str] = Counter()
    for scorer in listed:
        plain = scorer.name.rpartition("/")[2]
        # The second scorer of a name is called name1.
        name = f"{plain}{seen[plain] or ''}"
        seen[plain] += 1
        settings: dict[str, object] = {"scorer": scorer.name.removeprefix("inspect_ai/")}
        settings |= {f"option {key}": value for key, value in (scorer.options or {}).items()}
        grader = (log.eval.model_roles or {}).get("grader")
        if grader is not None and plain not in _TEXT_SCORERS:
            settings["judge model"] = grader.model
        reducers = [one for one in log.eval.config.epochs_reducer or [] if one != "mean"]
        if reducers:
            settings["reduction of epochs"] = ", ".join(reducers)
        gathering.scored_with(name, settings)


def _is_whole_run(limit: object, size: int | None, present: int) -> bool:
    """Return whether the whole data set ran in spite of a limit."""
    if size is None or present < size:
        return False
    if isinstance(limit, list):
        return len(limit) == 2 and limit[0] in (0, 1) and _is_within_limit(limit[1], size)
    return _is_within_limit(limit, size)


def _is_within_limit(limit: object, size: int) -> bool:
    return isinstance(limit, int) and not isinstance(limit, bool) and limit >= size


def _add(gathering: Gathering, place: str, raw: msgspec.Raw, row: _Sample, *, scored: bool) -> None:
    scores: dict[str, float | None] = {}
    raw_scores: dict[str, object] = {}
    tags = make_tags(row.metadata)
    for name, score in (row.scores or {}).items():
        for part, value in _split_score(name, score.value):
            scores[part] = _read_number(value)
            if value in _VERDICTS:
                gathering.higher_is_better.add(part)
            if isinstance(value, str) and value in NOT_FINITE:
                raw_scores[part] = value
            elif scores[part] is None and isinstance(value, str):
                tags[f"label.{part}"] = value
                gathering.note(f"score {part} has labels that are not numbers; they became tags")
        tags |= _read_edit_tags(gathering, name, score, place)
    if row.limit is not None and row.limit.type:
        tags["limit"] = row.limit.type
    if row.error_retries:
        tags["retries"] = str(len(row.error_retries))
    error = _read_error(row, scores, scored=scored)
    if error is not None and any(score is not None for score in scores.values()):
        gathering.note("scores of errored or invalidated samples are ignored")
    gathering.add(
        place,
        item=gathering.choose_id(place, raw, row.id),
        epoch=row.epoch,
        given=row.input if not row.choices else {"input": row.input, "choices": row.choices},
        target=row.target,
        output=_read_completion(row.output),
        scores={**scores, **raw_scores},
        error=error,
        latency_ms=None if row.total_time is None else row.total_time * 1000,
        tags=tags,
        tokens=sum_tokens(*(used.get("total_tokens") for used in row.model_usage.values())),
    )


def _split_score(name: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(f"{name}/{key}", part) for key, part in value.items()]
    if isinstance(value, list):
        return [(f"{name}/{index}", part) for index, part in enumerate(value)]
    return [(name, value)]


def _read_number(value: object) -> float | None:
    if not isinstance(value, str):
        return score_number(value)
    if value in _LETTERS:
        return _LETTERS[value]
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    try:
        return score_number(float(value))
    except ValueError:
        return None


def _read_error(
    row: _Sample, scores: dict[str, float | None], *, scored: bool
) -> ForeignError | None:
    if row.error is not None:
        return make_error(row.error.message, "sample_error")
    if row.invalidation is not None:
        reason = row.invalidation.reason or "no reason given"
        return ForeignError("invalidated", f"by {row.invalidation.author or 'unknown'}: {reason}")
    if scored and all(score is None for score in scores.values()):
        return ForeignError("unscored", "no scorer gave this sample a number")
    return None


def _read_edit_tags(gathering: Gathering, name: str, score: _Score, place: str) -> dict[str, str]:
    edits = [edit for edit in score.history if edit.provenance is not None]
    if not edits:
        return {}
    latest, provenance = edits[-1], edits[-1].provenance
    if latest.value != "UNCHANGED" and shorten_value(latest.value) != shorten_value(score.value):
        gathering.note_contradiction(
            f"{place}: {name} is {shorten_value(score.value)} "
            f"but its last edit says {shorten_value(latest.value)}"
        )
    fields = {
        "author": provenance.author if provenance else None,
        "reason": provenance.reason if provenance else None,
        "timestamp": provenance.timestamp if provenance else None,
        "original": _format_plain(score.history[0].value),
    }
    gathering.note("some scores were edited after the run; their tags say by whom and why")
    return {f"edited.{name}.{key}": text for key, text in fields.items() if text}


def _format_limit(limit: object) -> str:
    """Return a limit as one number, or as a range."""
    return "-".join(map(shorten_value, limit)) if isinstance(limit, list) else shorten_value(limit)


def _format_plain(value: object) -> str:
    return value if isinstance(value, str) else shorten_value(value)


def _read_completion(output: _Output | None) -> object:
    if output is None:
        return None
    if output.completion is not None:
        return output.completion
    message = output.choices[0].message if output.choices else None
    return None if message is None else message.content


def _add_missing(gathering: Gathering, log: _Log) -> None:
    present = {(sample.id, sample.epoch) for sample in gathering.samples}
    epochs = range(1, max(1, min(log.eval.config.epochs or 1, 1000)) + 1)
    pinned = {str(item).strip() for item in log.eval.dataset.sample_ids or []}
    for item in sorted(pinned):
        for epoch in epochs:
            if (item, epoch) not in present:
                gathering.add(
                    f"{gathering.place}: eval.dataset.sample_ids",
                    item=item,
                    epoch=epoch,
                    error=ForeignError("missing", "listed in the dataset, but not in the log"),
                )


def _check(gathering: Gathering, results: _Results, samples: list[ForeignSample]) -> None:
    if results.total_samples is not None:
        gathering.check(check_count("total_samples", results.total_samples, len(samples)))
    names = {name for sample in samples for name in sample.scores}
    repeated = any(sample.epoch > 1 for sample in samples)
    for total in results.scores:
        name = total.name if total.name in names else f"{total.scorer}/{total.name}"
        label = name if total.reducer is None else f"{name} [{total.reducer}]"
        for metric, claimed in total.metrics.items():
            value = score_number(claimed.value)
            if value is None:
                continue
            gathering.claim(f"{label} {metric}", value)
            if metric not in _MEANS or name not in names:
                continue
            if repeated and total.reducer not in (None, "mean"):
                gathering.note(f"{label} {metric} is not recomputed: its reducer is not a mean")
                continue
            reduced = _reduce_scores(samples, name)
            gathering.check(
                check_mean(
                    f"{label} {metric}",
                    value,
                    reduced,
                    len({sample.id for sample in samples}),
                    "samples errored or were not scored",
                )
            )


def _reduce_scores(samples: list[ForeignSample], name: str) -> list[float]:
    epochs: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        score = sample.scores.get(name)
        if score is not None:
            epochs[sample.id].append(score)
    return [math.fsum(scores) / len(scores) for scores in epochs.values()]


def _choose_headline(log: _Log, gathering: Gathering) -> str | None:
    if log.results is not None and log.results.headline is not None:
        return log.results.headline.score
    names = {name for sample in gathering.samples for name in sample.scores}
    shown = [total.name for total in (log.results.scores if log.results else [])]
    return next((name for name in shown if name in names), gathering.only_score())


IMPORTER: Final = make_log_importer(
    "inspect",
    "Inspect AI logs (.json, .eval)",
    sniff=_sniff,
    load=_load,
    arms=_read_arms,
    read=_read,
)
