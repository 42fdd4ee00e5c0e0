"""Mistakes in data sets: repeated inputs, contradicting labels, blanks, personal data, overlaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from gatemark.core.canonical import digest
from gatemark.evidence.inputs import digest_content
from gatemark.evidence.personal_data import personal_data
from gatemark.evidence.rows import Row, placed_rows
from gatemark.packs.lint.report import LintWarning
from gatemark.packs.pack_data import BUILTIN
from gatemark.packs.pack_file import OpenPack

SHOWN_LENGTH: Final = 60


class _PlacedRow(NamedTuple):
    place: str
    row: Row
    input: int | None
    """Digest of the input, the same for copies of it."""


def find_data_warnings(opened: OpenPack, base: Path) -> Iterator[LintWarning | str]:
    """Yield warnings about the data of a pack, each with its file and line.

    ``base`` is the pack's folder as the user named it.
    """
    read: dict[str, list[_PlacedRow]] = {}
    for number, suite in enumerate(opened.pack.suites):
        dataset = suite.dataset
        if dataset is None or dataset.startswith(BUILTIN):
            continue
        if dataset not in read:
            found = placed_rows(str(opened.folder / dataset), str(base / dataset))
            read[dataset] = [
                _PlacedRow(place, row, digest_content(row.input)) for place, row in found
            ]
            yield from _find_mistakes(read[dataset])
        size = len(read[dataset])
        if suite.sample is not None and suite.sample.n > size:
            yield LintWarning(
                f"$.suites[{number}].sample.n",
                f"suite {suite.id}: sample.n is {suite.sample.n}, but {dataset} has {size} items; "
                "all of them are used: lower n, or leave out sample",
            )
    yield from _find_shared(opened, read)


def _find_mistakes(rows: Sequence[_PlacedRow]) -> Iterator[str]:
    yield from _find_repeated(rows)
    yield from _find_one_label(rows)
    yield from _find_blanks(rows)
    yield from _find_personal(rows)


def _find_repeated(rows: Sequence[_PlacedRow]) -> Iterator[str]:
    """Yield repeated inputs, and those whose labels contradict each other."""
    same: dict[int | None, list[_PlacedRow]] = {}
    for one in rows:
        same.setdefault(one.input, []).append(one)
    repeated = [group for group in same.values() if len(group) > 1]
    contradicting = [
        group for group in repeated if len({digest_content(r.row.target) for r in group}) > 1
    ]
    alike = [group for group in repeated if group not in contradicting and not _is_cluster(group)]
    if contradicting:
        first, *others = contradicting[0]
        wanted = digest_content(first.row.target)
        other = next(r for r in others if digest_content(r.row.target) != wanted)
        yield (
            f"{other.place}: {_describe_repeats(contradicting)} with different targets: "
            f"{_shorten(other.row.input)} has {_shorten(other.row.target)} here and "
            f"{_shorten(first.row.target)} at {first.place}; no answer is right for both: "
            "keep one, or give a list of accepted targets"
        )
    if alike:
        first, second, *_ = alike[0]
        yield (
            f"{second.place}: {_describe_repeats(alike)}: {_shorten(second.row.input)} was seen at "
            f"{first.place}; an input counts once, so they add nothing: remove them"
        )


def _is_cluster(group: Sequence[_PlacedRow]) -> bool:
    clusters = {one.row.cluster for one in group}
    return len(clusters) == 1 and None not in clusters


def _describe_repeats(groups: Sequence[Sequence[_PlacedRow]]) -> str:
    return "1 input is repeated" if len(groups) == 1 else f"{len(groups)} inputs are repeated"


def _find_one_label(rows: Sequence[_PlacedRow]) -> Iterator[str]:
    labels = {digest(one.row.target) for one in rows}
    label = rows[0].row.target
    if len(rows) > 1 and len(labels) == 1 and label is not None:
        yield (
            f"{rows[0].place}: all {len(rows)} items have the target {_shorten(label)}, so a "
            "constant answer gets a full score; add items with other targets"
        )


def _find_blanks(rows: Sequence[_PlacedRow]) -> Iterator[str]:
    for field in ("input", "target"):
        found = [one for one in rows if _has_blanks(getattr(one.row, field))]
        if found:
            value = getattr(found[0].row, field)
            yield (
                f"{found[0].place}: {len(found)} of {len(rows)} items have blanks at the start or "
                f"end of {field}, such as {_shorten(value)}; remove them"
            )


def _has_blanks(value: object) -> bool:
    return isinstance(value, str) and value != value.strip()


def _find_personal(rows: Sequence[_PlacedRow]) -> Iterator[str]:
    """Yield items that seem to contain personal data, without repeating it."""
    found = [(one, kinds) for one in rows if (kinds := _find_personal_kinds(one.row))]
    if found:
        one, kinds = found[0]
        yield (
            f"{one.place}: {len(found)} of {len(rows)} items seem to hold personal data or keys, "
            f"such as {one.row.id} ({', '.join(kinds)}); data is kept with every result: "
            "replace it with made-up values"
        )


def _find_personal_kinds(row: Row) -> list[str]:
    texts = _collect_texts([row.input, row.target, row.extra])
    return sorted({kind for text in texts for kind in personal_data(text)})


def _collect_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _collect_texts(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from _collect_texts(inner)


def _find_shared(
    opened: OpenPack, read: Mapping[str, Sequence[_PlacedRow]]
) -> Iterator[LintWarning]:
    """Yield suites that ask the same inputs, which then count twice."""
    asked = [
        (number, suite.id, {digest_content(row.input) for row in opened.snapshots[suite.id].rows})
        for number, suite in enumerate(opened.pack.suites)
        if suite.dataset in read
    ]
    for (_, first, inputs), (number, second, others) in combinations(asked, 2):
        if both := len(inputs & others):
            yield LintWarning(
                f"$.suites[{number}].dataset",
                f"suite {second}: {both} of its {len(others)} inputs are also in suite {first}, "
                "so they count twice; use other data, or look at one suite's answers again with "
                f"from: {first}",
            )


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"
