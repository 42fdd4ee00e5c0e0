"""lm-evaluation-harness: `samples_<task>_<time>.jsonl`, with its `results_<time>.json`.

The samples file has one row per document and filter; the results file has the aggregates and is the
only place that shows a run cut with ``--limit``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from statistics import fmean
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import decode, find_key_paths, find_value, read_json_lines
from gatemark.samples.gathering import (
    Gathering,
    check_count,
    check_mean,
    choose_arm,
    is_same_number,
    read_id,
    score_number,
)
from gatemark.samples.importer import ForeignFile, Imported, Importer, LogExperiment, ReadOptions

NAME: Final = "lm-eval"
_SAMPLES_NAME: Final = re.compile(
    r"samples_(?P<task>.+?)(?:_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl$"
)
_NOT_OPTIONS: Final = frozenset({"metric", "higher_is_better"})
_ALIAS: Final = re.compile(r"results\.[^.]+\.alias$")


class _Row(msgspec.Struct):
    doc_id: int
    doc: object = None
    target: object = None
    arguments: object = None
    resps: object = None
    filter: str = "none"
    metrics: list[str] = []
    doc_hash: str | None = None


class _Counted(msgspec.Struct):
    original: int
    effective: int


class _FilterSpec(msgspec.Struct):
    name: str = ""
    filter: object = None


class _TaskConfig(msgspec.Struct):
    metric_list: list[dict[str, object]] | None = None
    filter_list: list[_FilterSpec] | None = None


class _RunConfig(msgspec.Struct):
    limit: float | None = None


class _Results(msgspec.Struct):
    results: dict[str, dict[str, object]]
    configs: dict[str, _TaskConfig] = {}
    config: _RunConfig = msgspec.field(default_factory=_RunConfig)
    counts: dict[str, _Counted] = msgspec.field(name="n-samples", default_factory=dict)
    task_hashes: dict[str, str] = {}
    higher_is_better: dict[str, dict[str, object] | None] = {}
    versions: dict[str, object] = {}
    model_name: str | None = None
    lm_eval_version: str | None = None


class _Doc(msgspec.Struct):
    place: str
    first: dict[str, object]
    row: _Row
    scores: dict[str, float | None]
    written: dict[str, object]


def sniff(head: bytes, _filename: str) -> bool:
    """Recognise a samples row, or a results file."""
    return _is_samples(head) or _is_results(head)


def arms(files: Sequence[ForeignFile], options: ReadOptions) -> tuple[LogExperiment, ...]:
    """Return one arm per task."""
    samples, results = _sort_files(files, options)
    return tuple(
        LogExperiment(
            _choose_task(file, results), sum(1 for _ in read_json_lines(file, msgspec.Raw))
        )
        for file in samples
    )


def read(files: Sequence[ForeignFile], options: ReadOptions) -> Imported:
    """Read one sample per document; the metrics of each filter are scores named metric/filter."""
    samples, results = _sort_files(files, options)
    by_task = {_choose_task(file, results): file for file in samples}
    if len(by_task) != len(samples):
        raise BadInputError(f"{samples[0].name}: two samples files of the same task")
    place = ", ".join(file.name for file in samples)
    task = choose_arm([LogExperiment(name, 0) for name in by_task], options.arm, place)
    gathering = Gathering(NAME, by_task[task].name, options)
    task_hash = None
    if results is None:
        gathering.note(
            "no results file was given: neither --limit nor the aggregates could be checked"
        )
    else:
        _note_limited(results, task, gathering)
        gathering.version = results.lm_eval_version
        task_hash = results.task_hashes.get(task)
    docs = _read_docs(by_task[task], gathering)
    own_ids = _has_own_ids(docs)
    if not own_ids and options.id_path is None:
        gathering.by_position = True
        gathering.note("documents have no ids: doc_id, their position, is used")
    for doc in docs.values():
        _add(gathering, doc, own_ids=own_ids, task_hash=task_hash)
    if results is not None:
        _check(gathering, results, task, docs)
        gathering.lineage |= {
            "model": results.model_name or "",
            "lm_eval": results.lm_eval_version or "",
            "task_hash": task_hash or "",
        }
    gathering.lineage["task"] = task
    return gathering.finish(arm=task, headline=gathering.only_score())


def _is_samples(head: bytes) -> bool:
    return find_key_paths(head) >= {"doc_id", "doc", "arguments", "resps"}


def _is_results(head: bytes) -> bool:
    paths = find_key_paths(head)
    return "results" in paths and any(_ALIAS.match(path) for path in paths)


def _sort_files(
    files: Sequence[ForeignFile], options: ReadOptions
) -> tuple[list[ForeignFile], _Results | None]:
    samples = [file for file in files if _is_samples(file.head)]
    results = [file for file in files if not _is_samples(file.head)]
    if not samples:
        raise BadInputError(
            f"{files[0].name if files else NAME}: contains aggregates only; also name the samples "
            "file (lm-eval writes one with --log_samples)"
        )
    if not results:
        results = _find_beside(samples[0], options)
    if len(results) > 1:
        raise BadInputError(f"{results[1].name}: one results file per import, got {len(results)}")
    if not results:
        return samples, None
    return samples, decode(results[0].data, _Results, results[0].name)


def _find_beside(samples: ForeignFile, options: ReadOptions) -> list[ForeignFile]:
    named = _SAMPLES_NAME.search(PurePath(samples.name).name)
    if named is None or named["time"] is None:
        return []
    found = samples.read_sibling(f"results_{named['time']}.json", options.limits)
    return [] if found is None else [found]


def _choose_task(file: ForeignFile, results: _Results | None) -> str:
    name = PurePath(file.name).name
    known = sorted(results.results if results else (), key=len, reverse=True)
    for task in known:
        if re.search(rf"samples_{re.escape(task)}(?=[_.])", name):
            return task
    named = _SAMPLES_NAME.search(name)
    return named["task"] if named else name.removesuffix(".jsonl")


def _note_limited(results: _Results, task: str, gathering: Gathering) -> None:
    counted = results.counts.get(task)
    if counted is not None and counted.effective < counted.original:
        gathering.partial(
            f"{task} ran {counted.effective} of {counted.original} documents (--limit)"
        )
    elif counted is None and results.config.limit is not None:
        gathering.partial(f"the run was cut with --limit {results.config.limit:g}")


def _read_docs(file: ForeignFile, gathering: Gathering) -> dict[int, _Doc]:
    docs: dict[int, _Doc] = {}
    for place, whole, row in gathering.read_typed(read_json_lines(file, dict[str, object]), _Row):
        doc = docs.setdefault(row.doc_id, _Doc(place, whole, row, {}, {}))
        for metric in row.metrics:
            name = f"{metric}/{row.filter}"
            if name in doc.scores:
                raise BadInputError(
                    f"{place}: doc_id {row.doc_id} has a second row for filter {row.filter!r}"
                )
            doc.written[name] = whole.get(metric)
            doc.scores[name] = score_number(doc.written[name])
            if doc.scores[name] is None:
                gathering.note(f"{name} is not one number per document; it is null")
    return docs


def _has_own_ids(docs: Mapping[int, _Doc]) -> bool:
    ids = [_read_own_id(doc.row) for doc in docs.values()]
    usable = [name for name in map(read_id, ids) if name is not None]
    return len(docs) == len(usable) == len(set(usable))


def _add(gathering: Gathering, doc: _Doc, *, own_ids: bool, task_hash: str | None) -> None:
    row = doc.row
    tags = {"doc_id": str(row.doc_id)}
    if row.doc_hash:
        tags["doc_hash"] = row.doc_hash
    if task_hash:
        tags["task_hash"] = task_hash
    gathering.add(
        doc.place,
        item=gathering.choose_id(
            doc.place, doc.first, _read_own_id(row) if own_ids else row.doc_id
        ),
        given=_read_prompt(row),
        target=row.target,
        output=_read_response(row),
        scores=doc.written,
        tags=tags,
    )


def _read_own_id(row: _Row) -> object:
    return row.doc.get("id") if isinstance(row.doc, dict) else None


def _read_prompt(row: _Row) -> object:
    prompt = find_value(row.arguments, "gen_args_0.arg_0")
    return row.doc if prompt is None else prompt


def _read_response(row: _Row) -> object:
    """Return the bare answer if there is one; log likelihoods become numbers."""
    continued = isinstance(find_value(row.arguments, "gen_args_0.arg_1"), str)
    if not isinstance(row.resps, list):
        return row.resps
    answers = [
        _read_likelihood(_strip_nesting(part)) if continued else _strip_nesting(part)
        for part in row.resps
    ]
    return answers[0] if len(answers) == 1 else answers


def _strip_nesting(part: object) -> object:
    return part[0] if isinstance(part, list) and len(part) == 1 else part


def _read_likelihood(pair: object) -> object:
    if not isinstance(pair, list) or len(pair) != 2 or pair[1] not in ("True", "False"):
        return pair
    try:
        return [float(pair[0]), pair[1] == "True"]
    except (TypeError, ValueError):
        return pair


def _check(gathering: Gathering, results: _Results, task: str, docs: Mapping[int, _Doc]) -> None:
    claims = results.results.get(task, {})
    config = results.configs.get(task)
    listed = (config.metric_list if config else None) or []
    specs = {str(spec["metric"]): spec for spec in listed if isinstance(spec.get("metric"), str)}
    means = {metric for metric, spec in specs.items() if spec.get("aggregation") == "mean"}
    directions = {metric: spec.get("higher_is_better") for metric, spec in specs.items()}
    filters = {one.name: one.filter for one in (config.filter_list if config else None) or []}
    directions |= results.higher_is_better.get(task) or {}
    length = claims.get("sample_len")
    if isinstance(length, int):
        gathering.check(check_count(f"{task} sample_len", length, len(docs)))
    for key, value in claims.items():
        metric, comma, filter_name = key.partition(",")
        claimed = score_number(value)
        if not comma or claimed is None:
            continue
        name = f"{metric}/{filter_name}"
        gathering.claim(name, claimed)
        scores = [doc.scores.get(name) for doc in docs.values()]
        values = [score for score in scores if score is not None]
        if metric in means:
            gathering.check(
                check_mean(name, claimed, values, len(docs), "documents have no such score")
            )
        # The direction is that of the aggregate. One that is no mean, such as a perplexity over log
        # likelihoods, may turn it round.
        is_mean = metric in means or (bool(values) and is_same_number(fmean(values), claimed))
        if directions.get(metric) is False and is_mean:
            gathering.lower_is_better.add(name)
        if directions.get(metric) is True and is_mean:
            gathering.higher_is_better.add(name)
        options = {k: v for k, v in specs.get(metric, {}).items() if k not in _NOT_OPTIONS}
        gathering.scored_with(
            name,
            {
                "task version": results.versions.get(task),
                "filter": filters.get(filter_name),
                **{
                    (key if key == "aggregation" else f"option {key}"): options[key]
                    for key in options
                },
            },
        )


IMPORTER: Final = Importer(
    name=NAME,
    summary="lm-evaluation-harness samples (.jsonl) and results (.json)",
    sniff=sniff,
    arms=arms,
    read=read,
    joint=True,
)
