"""OpenAI evals: JSON Lines with the run's spec first, one event per line, and a final report."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import find_key_paths, read_json_lines
from gatemark.samples.gathering import (
    Gathering,
    check_mean,
    make_error,
    make_log_importer,
    score_number,
)
from gatemark.samples.importer import ForeignError, ForeignFile, Imported, LogExperiment, Refusal

_MATCH: Final = "match"


class _RunConfig(msgspec.Struct):
    max_samples: int | None = None


class _RunSpec(msgspec.Struct):
    eval_name: str = "run"
    base_eval: str = ""
    split: str = ""
    completion_fns: list[str] | None = None
    run_id: str = ""
    created_at: str = ""
    run_config: _RunConfig = msgspec.field(default_factory=_RunConfig)


class _Line(msgspec.Struct):
    spec: _RunSpec | None = None
    final_report: dict[str, object] | None = None
    sample_id: str | None = None
    type: str = ""
    data: object = None


class _Item(msgspec.Struct):
    """The events of one sample."""

    place: str
    given: object = None
    target: object = None
    output: object = None
    picked: object = None
    scores: dict[str, list[object]] = msgspec.field(default_factory=dict)
    error: ForeignError | None = None


class _Log(msgspec.Struct):
    spec: _RunSpec | None = None
    report: dict[str, object] | None = None
    items: dict[str, _Item] = msgspec.field(default_factory=dict)


def _read_arms(log: _Log) -> tuple[LogExperiment, ...]:
    return (LogExperiment((log.spec or _RunSpec()).eval_name, len(log.items)),)


def _read(log: _Log, gathering: Gathering) -> Imported:
    """Read one sample per sample id, with its prompt, answer and scores."""
    arm = gathering.choose_arm(_read_arms(log))
    gathering.by_position = True
    for name, item in log.items.items():
        _add(gathering, name, item)
    spec = log.spec or _RunSpec()
    if log.report is None:
        gathering.partial("the log has no final report: the run did not finish")
    if spec.run_config.max_samples is not None:
        gathering.partial(f"the run was cut with --max_samples {spec.run_config.max_samples}")
    _check(gathering, log)
    gathering.lineage |= {
        "task": spec.eval_name,
        "model": ", ".join(spec.completion_fns or []),
        "created": spec.created_at,
        "run": spec.run_id,
    }
    is_matched = any(_MATCH in item.scores for item in log.items.values())
    return gathering.finish(arm=arm, headline=_MATCH if is_matched else gathering.only_score())


def _load(file: ForeignFile, gathering: Gathering) -> _Log:
    log = _Log()
    for place, line in read_json_lines(file, _Line):
        if isinstance(line, Refusal):
            gathering.refuse(line)
        elif line.spec is not None:
            if log.spec is not None:
                raise BadInputError(f"{place}: a second run begins; import one run per file")
            log.spec = line.spec
        elif line.final_report is not None:
            log.report = line.final_report
        elif line.sample_id is not None:
            item = log.items.setdefault(line.sample_id, _Item(place))
            _take(item, line.type, line.data if isinstance(line.data, dict) else {})
    return log


def _take(item: _Item, kind: str, data: dict[str, object]) -> None:
    if kind == "sampling":
        item.given = data.get("prompt", item.given)
        item.output = data.get("sampled", item.output)
    elif kind == _MATCH:
        item.scores.setdefault(_MATCH, []).append(data.get("correct"))
        item.target = data.get("expected", item.target)
        item.picked = data.get("picked", item.picked)
    elif kind == "metrics":
        for name, value in data.items():
            item.scores.setdefault(name, []).append(value)
    elif kind == "error":
        item.error = make_error(data.get("message") or data.get("type") or "", "error")


def _add(gathering: Gathering, name: str, item: _Item) -> None:
    """Add a sample; several values of one score become their mean, or null if one is missing."""
    scores: dict[str, object] = {}
    for score, values in item.scores.items():
        numbers = [number for number in map(score_number, values) if number is not None]
        whole = len(numbers) == len(values)
        scores[score] = sum(numbers) / len(numbers) if whole else values[-1]
        if not whole and score_number(values[-1]) is not None:
            scores[score] = None
    error = item.error
    if error is None and all(score_number(score) is None for score in scores.values()):
        error = ForeignError("unscored", "no event gave this sample a score")
    output = item.output
    if isinstance(output, list) and len(output) == 1:
        output = output[0]
    gathering.add(
        item.place,
        item=gathering.choose_id(item.place, {"sample_id": name}, name),
        given=item.given,
        target=item.target,
        output=item.picked if output is None else output,
        scores=scores,
        error=error,
    )


def _check(gathering: Gathering, log: _Log) -> None:
    """Check the reported accuracy, which is over match events, usually one per sample."""
    claimed = score_number((log.report or {}).get("accuracy"))
    events = [value for item in log.items.values() for value in item.scores.get(_MATCH, [])]
    values = [number for number in map(score_number, events) if number is not None]
    if claimed is not None and values:
        gathering.check(
            check_mean("accuracy", claimed, values, len(values), "events have no verdict")
        )


IMPORTER: Final = make_log_importer(
    "openai-evals",
    "OpenAI evals logs (.jsonl)",
    # The first line has the spec of the run.
    sniff=lambda head, _: find_key_paths(head) >= {"spec", "spec.eval_name", "spec.run_id"},
    load=_load,
    arms=_read_arms,
    read=_read,
)
