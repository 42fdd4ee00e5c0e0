"""HELM runs: `per_instance_stats.json`, with `scenario_state.json` and `run_spec.json`.

The statistics have the scores of each instance; questions and answers are in the state. The shapes
are those of HELM 0.2 to 0.5 (`PerInstanceStats`, `RequestState`, `RequestResult`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from gatemark.samples.foreign_json import decode, find_key_paths, read_json_rows
from gatemark.samples.gathering import (
    Gathering,
    make_error,
    make_log_importer,
    score_number,
    sum_tokens,
)
from gatemark.samples.importer import ForeignError, ForeignFile, Imported, LogExperiment

_TOKENS: Final = ("prompt", "completion")
STATS_FILE: Final = "per_instance_stats.json"
_LOWER_IS_BETTER: Final = frozenset(
    [
        "absolute_value_difference",
        "bbq_metric_ambiguous_bias",
        "bbq_metric_unambiguous_bias",
        "bits_per_byte",
        "demographic_parity_difference",
        "distance",
        "ece_1_bin",
        "ece_10_bin",
        "edit_similarity",
        "equalized_odds_difference",
        "expected_max_toxicity",
        "inference_denoised_runtime",
        "inference_idealized_runtime",
        "inference_runtime",
        "longest_common_prefix_length",
        "max_toxicity_probability",
        "perplexity",
        "platt_ece_1_bin",
        "platt_ece_10_bin",
        "toxic_frac",
        "training_co2_cost",
        "training_energy_cost",
    ]
)
"""Metrics that HELM's `schema_classic.yaml` marks so; a run does not repeat the marks."""
_BIAS: Final = "bias_metric:"
_MARKS: Final = {"[].instance_id", "[].train_trial_index", "[].stats"}


class _Perturbation(msgspec.Struct):
    name: str = ""


class _StatName(msgspec.Struct):
    name: str
    split: str | None = None
    perturbation: _Perturbation | None = None


class _Stat(msgspec.Struct):
    name: _StatName
    count: int = 0
    sum: object = None
    mean: object = None

    @property
    def value(self) -> object:
        """The mean; older versions store only sum and count."""
        if self.mean is not None:
            return self.mean
        total, count = score_number(self.sum), score_number(self.count)
        return None if total is None or count is None or count < 1 else total / count


class _Row(msgspec.Struct):
    instance_id: str
    train_trial_index: int = 0
    perturbation: _Perturbation | None = None
    stats: list[_Stat] = []

    @property
    def key(self) -> tuple[str, int]:
        """The item with its perturbation, and the trial as its epoch."""
        return _make_key(self.instance_id, self.perturbation, self.train_trial_index)


class _Text(msgspec.Struct):
    text: object = None


class _Reference(msgspec.Struct):
    output: _Text | str = ""
    tags: list[str] = []


class _Instance(msgspec.Struct):
    id: str | None = None
    input: _Text | str | None = None
    references: list[_Reference] = []
    perturbation: _Perturbation | None = None


class _Result(msgspec.Struct):
    success: bool = True
    completions: list[_Text] = []
    error: object = None
    request_time: float | None = None


class _State(msgspec.Struct):
    instance: _Instance
    train_trial_index: int = 0
    request_mode: str | None = None
    result: _Result | None = None


class _AdapterSpec(msgspec.Struct):
    model: str | None = None


class _ScenarioState(msgspec.Struct):
    request_states: list[msgspec.Raw] = []
    adapter_spec: _AdapterSpec | None = None


class _RunSpec(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct):
    place: str
    scores: dict[str, object]
    answers: list[_State] = []


class _Run(NamedTuple):
    file: ForeignFile
    items: dict[tuple[str, int], _Item]


def _load(file: ForeignFile, gathering: Gathering) -> _Run:
    return _Run(file, _read_items(file, gathering))


def _read_arms(run: _Run) -> tuple[LogExperiment, ...]:
    return (LogExperiment("run", len(run.items)),)


def _read(run: _Run, gathering: Gathering) -> Imported:
    """Read one sample per instance and perturbation; training trials are epochs."""
    file, items = run
    arm = gathering.choose_arm(_read_arms(run))
    state = file.read_sibling("scenario_state.json", gathering.options.limits)
    if state is None:
        gathering.note("no scenario_state.json beside it: questions and answers are unknown")
    else:
        _add_states(state, items, gathering)
    for (name, epoch), item in sorted(items.items()):
        _add(gathering, name, epoch, item)
    spec = file.read_sibling("run_spec.json", gathering.options.limits)
    if spec is not None:
        gathering.lineage["task"] = decode(spec.data, _RunSpec, spec.name).name
    return gathering.finish(arm=arm, headline=gathering.only_score())


def _make_key(name: str, perturbation: _Perturbation | None, trial: int) -> tuple[str, int]:
    return (name if perturbation is None else f"{name} ({perturbation.name})", trial + 1)


def _read_items(file: ForeignFile, gathering: Gathering) -> dict[tuple[str, int], _Item]:
    items: dict[tuple[str, int], _Item] = {}
    raws = decode(file.data, list[msgspec.Raw], file.name)
    for place, _, row in gathering.readable(read_json_rows(raws, _Row, file.name)):
        scores = items.setdefault(row.key, _Item(place, {})).scores
        for stat in row.stats:
            name, value = stat.name.name, stat.value
            if name in scores and scores[name] != value:
                gathering.note_contradiction(f"{place}: {name} has two values for {row.key[0]!r}")
            scores[name] = value
            if name in _LOWER_IS_BETTER or name.startswith(_BIAS):
                gathering.lower_is_better.add(name)
    return items


def _add_states(
    file: ForeignFile, items: dict[tuple[str, int], _Item], gathering: Gathering
) -> None:
    state = decode(file.data, _ScenarioState, file.name)
    if state.adapter_spec is not None:
        gathering.lineage["model"] = state.adapter_spec.model or ""
    unscored = 0
    states = read_json_rows(state.request_states, _State, f"{file.name}: request_states")
    for _, _, one in gathering.readable(states):
        if one.instance.id is None or one.request_mode == "calibration":
            continue
        key = _make_key(one.instance.id, one.instance.perturbation, one.train_trial_index)
        unscored += key not in items
        items.setdefault(key, _Item(file.name, {})).answers.append(one)
    if unscored:
        gathering.note(f"{unscored} requests have no statistics")


def _add(gathering: Gathering, name: str, epoch: int, item: _Item) -> None:
    first = item.answers[0] if item.answers else None
    failed = next((one.result for one in item.answers if _has_failed(one)), None)
    error: ForeignError | None = None
    if failed is not None:
        error = make_error(failed.error or "the request failed", "request")
    elif all(score_number(score) is None for score in item.scores.values()):
        error = ForeignError("unscored", "no metric gave this instance a number")
    outputs = [
        one.result.completions[0].text
        for one in item.answers
        if one.result is not None and one.result.completions
    ]
    correct = [
        _read_text(one.output)
        for one in (first.instance.references if first else [])
        if "correct" in one.tags
    ]
    seconds = first.result.request_time if first and first.result else None
    gathering.add(
        item.place,
        item=gathering.choose_id(item.place, {"instance_id": name}, name),
        epoch=epoch,
        given=None if first is None else _read_text(first.instance.input),
        target=correct[0] if len(correct) == 1 else (correct or None),
        output=outputs[0] if len(outputs) == 1 else (outputs or None),
        scores=item.scores,
        error=error,
        latency_ms=None if seconds is None or len(item.answers) > 1 else seconds * 1000,
        tokens=sum_tokens(*(item.scores.get(f"num_{part}_tokens") for part in _TOKENS)),
    )


def _has_failed(state: _State) -> bool:
    return state.result is not None and not state.result.success


def _read_text(value: _Text | str | None) -> object:
    return value.text if isinstance(value, _Text) else value


IMPORTER: Final = make_log_importer(
    "helm",
    "HELM runs (per_instance_stats.json in its run folder)",
    sniff=lambda head, _: find_key_paths(head) >= _MARKS,
    load=_load,
    arms=_read_arms,
    read=_read,
    # The other files of a run are alongside it.
    in_folder=lambda names: [name for name in names if name == STATS_FILE],
)
