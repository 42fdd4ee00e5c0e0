"""Match two or more files of samples by id into pairs, and count the items left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gatemark.core.errors import (
    BadInputError,
    IntegrityError,
    NewerFormatError,
    OtherRulesError,
    UsageError,
)
from gatemark.core.result import AssetRef
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.input_problems import refuse_input
from gatemark.evidence.inputs import SeenInputs, digest_content
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.rows import BadLine, json_rows
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source, inspect_source
from gatemark.evidence.whole_file import admitted_batches
from gatemark.packs.sample_lines import read_sample_lines
from gatemark.release.review.plan import GOLD_ARMS, ReviewPair
from gatemark.samples.importer import SAMPLE_SCHEMA, Imported, ReadOptions, import_files
from gatemark.samples.read_samples import is_own_file
from gatemark.workspace import Workspace

SAME: Final = "same"
_LEFT_OUT: Final = ("unpaired", "errored", "without_output", "without_input", "same_input")
MAX_SEARCHED: Final = 500
SEARCHED_AT_ONCE: Final = 10


class ItemAnswer(NamedTuple):
    """The answer of an arm to one item, or its ``error``."""

    input: object
    output: object
    error: str | None = None


Answers = Mapping[str, ItemAnswer]


class Matched(NamedTuple):
    """The pairs to show, and the items left out, by reason."""

    pairs: list[ReviewPair]
    left_out: dict[str, list[str]]


def read_answers(path: str, choices: ReadingChoices) -> Answers:
    """Return an arm's first answer to each item, from samples or another tool's log."""
    source = inspect_source(path)
    if is_own_file(source, choices):
        form = schemas().get(SAMPLE_SCHEMA).form("sample")
        found = [record for batch in admitted_batches(source, form, choices) for _, record in batch]
    else:
        log = _read_foreign(source, choices)
        refuse_input([f"{entry.place}: {entry.reason}" for entry in log.refused], choices)
        found = list(log.samples)
    answers: dict[str, ItemAnswer] = {}
    for sample in sorted(found, key=lambda sample: sample.epoch):
        error = None if sample.error is None else sample.error.kind
        answers.setdefault(sample.id, ItemAnswer(sample.input, sample.output, error))
    return answers


def _read_foreign(source: Source, choices: ReadingChoices) -> Imported:
    """Read another tool's log; a line that is too long is an error, since its id is unknown."""
    try:
        (log,) = import_files([Path(source.path)], tool="auto", options=ReadOptions())
    except BadInputError as error:
        first = next(read_blocks(whole_file(source), choices.limits), None)
        if first is None or not first.overlong:
            raise
        limit = choices.limits.line_bytes
        problem = f"{source.name}:1: line is longer than {limit} bytes"
        raise BadInputError((problem, *error.problems)) from error
    return log


def read_sealed_answers(
    workspace: Workspace, reference: str, suite: str | None
) -> tuple[dict[str, Answers], dict[str, AssetRef]]:
    """Return both arms' answers to one suite of a pack run, and the assets of the arms."""
    result = workspace.citable_result(reference)
    suffix = ".candidate.jsonl"
    known = [blob.name.removesuffix(suffix) for blob in result.blobs if blob.name.endswith(suffix)]
    if suite is None and len(known) != 1:
        raise UsageError(
            f"result {result.id} has answers to {', '.join(known) or 'no suite'}; "
            "name one with --suite"
        )
    wanted = suite or known[0]
    stored = {blob.name: blob.digest for blob in result.blobs}
    arms: dict[str, Answers] = {}
    for arm in ("candidate", "baseline"):
        name = f"{wanted}.{arm}.jsonl"
        if name not in stored:
            raise UsageError(f"result {result.id} holds no answers of the {arm} to {wanted!r}")
        samples = read_sample_lines(workspace.blobs.get(stored[name]), name)
        found: dict[str, ItemAnswer] = {}
        for sample in sorted(samples, key=lambda sample: sample["epoch"]):
            error = sample.get("error")
            kind = None if error is None else error["kind"]
            found.setdefault(
                sample["id"], ItemAnswer(sample.get("input"), sample.get("output"), kind)
            )
        arms[arm] = found
    about = {"candidate": result.candidate, "baseline": result.baseline}
    return arms, {arm: ref for arm, ref in about.items() if ref is not None}


def find_newest_result(workspace: Workspace, pack: str) -> str:
    """Return the newest sealed result of a pack."""
    before, seen = None, 0
    while seen < MAX_SEARCHED and (lines := workspace.results.lines(SEARCHED_AT_ONCE, before)):
        for line in lines:
            try:
                if workspace.citable_result(line.id).pack.name == pack:
                    return line.id
            except (IntegrityError, NewerFormatError, OtherRulesError):
                # What nothing may rest on does not hide what is below it.
                continue
        before, seen = lines[-1].seq, seen + len(lines)
    raise UsageError(f"no sealed result of a pack {pack!r} among the newest {MAX_SEARCHED}")


def match_arms(
    arms: Mapping[str, Answers], choices: ReadingChoices, *, trim: bool = False
) -> Matched:
    """Return every pair of arms on every input; the inputs of an item must be equal.

    An input that comes again under another id is left out, and so is an item without an input where
    others have one: it may be a copy.
    """
    everyone = sorted(set().union(*arms.values()))
    unpaired = [
        f"{name}: lacks item {item!r}"
        for item in everyone
        for name, answers in arms.items()
        if item not in answers
    ]
    if choices.on_unpaired == "error":
        refuse_input(unpaired, choices)
    left_out: dict[str, list[str]] = {reason: [] for reason in _LEFT_OUT}
    seen = SeenInputs()
    some_asked = any(one.input is not None for answers in arms.values() for one in answers.values())
    pairs: list[ReviewPair] = []
    different: list[str] = []
    for item in everyone:
        given = {name: answers[item] for name, answers in arms.items() if item in answers}
        reason = _explain_left_out(given, len(arms))
        if reason is not None:
            left_out[reason].append(item)
            continue
        inputs = {msgspec.json.encode(one.input, order="deterministic") for one in given.values()}
        if len(inputs) > 1:
            different.append(f"item {item!r} has different inputs in {', '.join(given)}")
            continue
        (asked,) = {digest_content(one.input) for one in given.values()}
        if some_asked and asked is None:
            left_out["without_input"].append(item)
            continue
        if seen.see(item, "earlier", asked) is not None:
            left_out["same_input"].append(item)
            continue
        for left, right in combinations(arms, 2):
            outputs = (
                _prepare_output(given[left].output, trim),
                _prepare_output(given[right].output, trim),
            )
            pairs.append(
                ReviewPair(item=item, arms=(left, right), input=given[left].input, answers=outputs)
            )
    refuse_input(different, choices)
    if not pairs:
        raise BadInputError("nothing to review: no item has an answer of every arm")
    return Matched(pairs, {reason: items for reason, items in left_out.items() if items})


def read_gold(path: str, choices: ReadingChoices) -> list[ReviewPair]:
    """Read gold pairs: rows with id, input and either better and worse, or same."""
    pairs: list[ReviewPair] = []
    problems: list[str] = []
    seen: set[str] = set()
    for place, row in json_rows(inspect_source(path), Limits()):
        problem = _find_gold_problem(row, seen)
        if problem is not None:
            problems.append(f"{place}: {problem}")
            continue
        seen.add(row["id"])
        is_same = SAME in row
        pairs.append(
            ReviewPair(
                item=row["id"],
                kind="gold_same" if is_same else "gold_better",
                arms=GOLD_ARMS,
                input=row["input"],
                answers=(row[SAME], row[SAME]) if is_same else (row["better"], row["worse"]),
            )
        )
    refuse_input(problems, choices)
    if not pairs:
        raise BadInputError(f"{path}: contains no gold pairs")
    return pairs


def _find_gold_problem(row: object, seen: set[str]) -> str | None:
    if isinstance(row, BadLine):
        return row.reason
    if not isinstance(row, dict):
        return "expected an object"
    if not isinstance(row.get("id"), str) or not row["id"].strip():
        return "id must be a string"
    if row["id"] in seen:
        return f"id {row['id']!r} was seen before"
    keys = set(row) - {"id", "input"}
    if "input" not in row or keys not in ({SAME}, {"better", "worse"}):
        return f"needs id, input and either better and worse, or same; got {', '.join(row)}"
    return None


def _explain_left_out(given: Mapping[str, ItemAnswer], arm_count: int) -> str | None:
    if len(given) < arm_count:
        return "unpaired"
    if any(one.error is not None for one in given.values()):
        return "errored"
    return "without_output" if any(one.output is None for one in given.values()) else None


def _prepare_output(output: object, trim: bool) -> object:
    return output.strip() if trim and isinstance(output, str) else output


def list_item_ids(pairs: Sequence[ReviewPair]) -> list[str]:
    """Return the distinct items of some pairs."""
    return sorted({pair.item for pair in pairs if not pair.is_gold})
