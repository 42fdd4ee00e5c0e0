"""Convert an Inspect log to a pack: its samples, its model, and scorers with a counterpart.

The answers in the log are the baseline, so the first run compares with them. Solvers and tools run
inside Inspect and are not converted; the notes say so if a log used any.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.packs.convert.conversion import (
    Conversion,
    build_pack,
    make_pack_name,
    write_json_lines,
)
from gatemark.packs.convert.foreign_files import Unconvertible
from gatemark.packs.convert.providers import convert_provider
from gatemark.samples.importer import (
    ForeignSample,
    ReadOptions,
    find_tool_log,
    import_files,
    open_foreign,
    to_record,
)
from gatemark.samples.importers.inspect import load_inspect

DATA: Final = "data/samples.jsonl"
ANSWERS: Final = "data/answers.jsonl"
_SCORERS: Final[dict[str, Any]] = {
    "exact": {"name": "normalised", "options": {"articles": True}},
    "includes": "contains",
    "f1": "token_f1",
}
"""Scorers of Inspect that have an equivalent in Gatemark."""
_PLAIN: Final = frozenset({"generate"})
"""Solvers that send the input to the model unchanged."""


def convert_log(path: str) -> Conversion:
    """Convert an Inspect log to a pack."""
    options = ReadOptions()
    file = find_tool_log(Path(path))
    (log,) = import_files([file], tool="inspect", options=options)
    header, _ = load_inspect(open_foreign(file, options.limits), options)
    samples = [one for one in log.samples if one.epoch == 1 and one.error is None]
    left_out = [f"{len(log.samples) - len(samples)} samples: errors, or further epochs"]
    left_out = left_out if len(samples) < len(log.samples) else []
    if not samples:
        raise BadInputError(f"{path}: the log has no sample without an error")
    if any(isinstance(one.input, dict) and "choices" in one.input for one in samples):
        raise BadInputError(
            f"{path}: the choices of a multiple-choice task are put into words by Inspect; gate "
            f"two logs of it: gatemark compare base.eval {path}"
        )
    steps = [step.solver for step in header.plan.steps if step.solver not in _PLAIN]
    if steps:
        left_out.append(f"solvers {', '.join(steps)}: the target is asked with the input alone")
    totals = [] if header.results is None else header.results.scores
    scorer, note = _choose_scorer([one.scorer or one.name for one in totals])
    left_out += note
    candidate, note = _convert_model(header.eval.model)
    left_out += note
    name = make_pack_name(header.eval.task.rpartition("/")[2] or Path(path).stem)
    suite = {"dataset": DATA, "scorer": scorer}
    return Conversion(
        pack=build_pack(name, "prompt", suite, candidate, {"recorded": ANSWERS}),
        files={
            DATA: write_json_lines([_make_item(one) for one in samples]),
            ANSWERS: write_json_lines([_make_answer(one) for one in samples]),
        },
        converted=(
            f"Made from {Path(path).name} of Inspect: {len(samples)} samples.",
            f"Baseline: the answers in the log, by {header.eval.model or 'an unnamed model'}.",
        ),
        left_out=tuple(left_out),
    )


def _choose_scorer(names: list[str]) -> tuple[Any, list[str]]:
    """Return the first scorer with a counterpart, and notes about the others."""
    short = [name.rpartition("/")[2] for name in names]
    known = [name for name in short if name in _SCORERS]
    others = [name for name in short if name not in known[:1]]
    note = [f"scorers {', '.join(others)}: choose one, see gatemark scorers"] if others else []
    if known:
        return _SCORERS[known[0]], note
    return "normalised", [*note, "the scorer is 'normalised': equal but for case and punctuation"]


def _convert_model(model: str) -> tuple[dict[str, Any], list[str]]:
    try:
        return convert_provider(model, {}, {"prompt": "{{input}}"}), []
    except Unconvertible as error:
        return (
            {"recorded": ANSWERS},
            [f"model: {error}; the candidate is the log itself until you name your own target"],
        )


def _make_item(sample: ForeignSample) -> dict[str, Any]:
    item = {"id": sample.id, "input": _find_question(sample.input), "target": sample.target}
    tags = {"tags": sample.tags} if sample.tags else {}
    return {key: value for key, value in item.items() if value is not None} | tags


def _make_answer(sample: ForeignSample) -> dict[str, Any]:
    kept = msgspec.structs.replace(
        sample, input=_find_question(sample.input), tags={}, cluster=None
    )
    return to_record(kept)


def _find_question(given: object) -> object:
    """Return the question if the input is a single message; otherwise the input itself."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict):
        content = given[0].get("content")
        return content if isinstance(content, str) else given
    return given
