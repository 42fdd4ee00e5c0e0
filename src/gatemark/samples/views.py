"""A comparison of two runs, as its JSON document, as Markdown and as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from gatemark.core.canonical import json_file
from gatemark.core.measurement import Direction
from gatemark.core.policy import Outcome
from gatemark.report import words
from gatemark.report.markdown import escape_text, format_code

SHOWN_IDS: Final = 10
SHOWN_CHANGES: Final = 20
Sameness = Literal["different", "same bytes", "one file"]
"""Whether the bytes of both files differ; equal tables and samples need not be one file."""


class Sides(msgspec.Struct, frozen=True):
    """One count for both sides."""

    base: int
    cand: int


class SideNames(msgspec.Struct, frozen=True):
    """The samples behind a count, for both sides; long lists are cut."""

    base: tuple[str, ...]
    cand: tuple[str, ...]


class Side(msgspec.Struct, frozen=True):
    """One of the two files: its name, its counts and its mean.

    ``mean`` is over the items that have a score; ``mean_over_all`` counts every other item as the
    worst score (0, or 1 where lower is better) and is null if scores are not inside [0, 1].
    """

    file: str
    digest: str
    tool: str
    arm: str | None
    samples: int
    items: int
    scored_items: int
    mean: float | None
    mean_over_all: float | None
    lineage: dict[str, str]


class LostItem(msgspec.Struct, frozen=True):
    """An item whose score got worse."""

    id: str
    base: float
    cand: float
    delta: float


class Clusters(msgspec.Struct, frozen=True):
    """The clusters that items were grouped by."""

    key: str
    count: int
    largest: int
    missing: int


class OtherInterval(msgspec.Struct, frozen=True):
    """An interval by another method."""

    method: str
    level: float
    low: float
    high: float


class NonInferior(msgspec.Struct, frozen=True):
    """Whether the drop stays within a margin; ``stated`` means that the user set the margin."""

    outcome: Outcome
    margin: float
    stated: bool
    drop: float | None
    lower: float | None
    upper: float | None
    method: str


class ComparisonReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a comparison. Its fields are the keys of the JSON document."""

    score: str
    n: int
    both_right: int | None
    both_wrong: int | None
    gained: int | None
    lost: int | None
    improved: int
    worsened: int
    unchanged: int
    direction: Direction | None
    direction_source: str | None
    files: Sameness
    delta: float | None
    delta_over_all: float | None
    interval: tuple[float, float] | None
    interval_level: float
    interval_method: str | None
    other_intervals: tuple[OtherInterval, ...]
    p_value: float | None
    mid_p_value: float | None
    permutation_p_value: float | None
    method: str
    mde: float | None
    errors: Sides
    unscored: Sides
    unpaired: Sides
    refused: Sides
    verdict: Outcome
    reason: str
    blockers: tuple[str, ...]
    caveats: tuple[str, ...]
    non_inferiority: NonInferior | None
    alpha: float
    seed: int
    resamples: int
    epochs: int
    clusters: Clusters | None
    base: Side
    cand: Side
    worst: tuple[LostItem, ...]
    error_ids: SideNames
    unscored_ids: SideNames
    unpaired_ids: SideNames
    result_id: str | None = None
    """The sealed result, if one was requested."""

    @property
    def worst_score(self) -> int:
        """What an error counts as, where scores are inside [0, 1]."""
        return int(self.direction == "lower_is_better")


def render_comparison_json(compared: ComparisonReport) -> bytes:
    """Return the document as indented JSON."""
    return json_file(compared)


def render_comparison_markdown(compared: ComparisonReport) -> bytes:
    """Return a comment for a pull request: the verdict, then gains and losses."""
    verdict = words.VERDICT_WORDS[compared.verdict]
    sections = [
        f"**{verdict}** {format_code(compared.score)} — {escape_text(compared.reason)}",
        _render_list("Also", compared.blockers[1:]),
        _render_section("Gained and lost", _render_table(("", "Count"), _list_cell_rows(compared))),
        _render_section("Numbers", _render_table(("", "Value"), list_number_rows(compared))),
        _render_section(
            "Sides", _render_table(("", "Base", "Candidate"), list_side_rows(compared))
        ),
        _render_section("Worst regressions", _format_changes(compared)),
        *(_format_missing(compared)),
        _render_list("Caveats", compared.caveats),
    ]
    return ("\n\n".join(section for section in sections if section) + "\n").encode()


def render_comparison_text(compared: ComparisonReport) -> str:
    """Return the text for a terminal, without colours."""
    parts = [
        words.one_line(compared.reason),
        "",
        f"  base:      {words.one_line(compared.base.file)}",
        f"  candidate: {words.one_line(compared.cand.file)}",
        "",
    ]
    parts += _align_columns(_list_cell_rows(compared) + list_number_rows(compared))
    parts += ["", *_align_columns((("", "base", "candidate"), *list_side_rows(compared)[1:]))]
    if compared.worst:
        shown = compared.worst[:SHOWN_IDS]
        rows = [(c.id, words.number(c.base), words.number(c.cand)) for c in shown]
        parts += ["", "Worst regressions", *_align_columns((("id", "base", "candidate"), *rows))]
        if compared.worsened > len(shown):
            parts.append(f"  and {compared.worsened - len(shown)} more")
    for title, items in (("Also", compared.blockers[1:]), ("Caveats", compared.caveats)):
        if items:
            parts += ["", title, *(f"  - {words.one_line(item)}" for item in items)]
    for title, names in _list_missing_names(compared):
        parts += ["", title, *(f"  {words.one_line(name)}" for name in names[:SHOWN_IDS])]
        if len(names) > SHOWN_IDS:
            parts.append(f"  and {len(names) - SHOWN_IDS} more")
    return "\n".join(line.rstrip() for line in parts) + "\n"


def list_number_rows(compared: ComparisonReport) -> list[tuple[str, ...]]:
    """Return the numbers behind the verdict, with labels."""
    level = words.shortest(round(compared.interval_level * 100, 6))
    rows: list[tuple[str, ...]] = [
        ("items scored on both sides", str(compared.n)),
        ("delta (candidate - base)", _format_number(compared.delta)),
        (f"{level} % interval", _format_interval(compared)),
        ("p-value, two-sided", _format_number(compared.p_value)),
        ("smallest detectable difference", _format_number(compared.mde)),
    ]
    if compared.delta_over_all is not None and compared.delta_over_all != compared.delta:
        rows.insert(
            2,
            (
                f"delta with errors as {compared.worst_score}",
                _format_number(compared.delta_over_all),
            ),
        )
    if compared.clusters is not None:
        rows.append((f"clusters by {compared.clusters.key}", str(compared.clusters.count)))
    rows.append(("method", compared.method))
    return rows


def list_side_rows(compared: ComparisonReport) -> list[tuple[str, ...]]:
    """Return both sides as a table."""
    base, cand = compared.base, compared.cand
    rows: list[tuple[str, ...]] = [
        ("file", base.file, cand.file),
        ("samples", str(base.samples), str(cand.samples)),
        ("mean of scored items", _format_mean(base), _format_mean(cand)),
        (
            f"mean with errors as {compared.worst_score}",
            _format_number(base.mean_over_all),
            _format_number(cand.mean_over_all),
        ),
    ]
    for name in ("errors", "unscored", "unpaired", "refused"):
        counts: Sides = getattr(compared, name)
        rows.append((name, str(counts.base), str(counts.cand)))
    return rows


def _list_cell_rows(compared: ComparisonReport) -> list[tuple[str, ...]]:
    if compared.gained is None:
        cells = (
            ("improved", compared.improved),
            ("worsened", compared.worsened),
            ("unchanged", compared.unchanged),
        )
        return [(name, str(count)) for name, count in cells]
    return [
        ("gained (wrong, now right)", str(compared.gained)),
        ("lost (right, now wrong)", str(compared.lost)),
        ("both right", str(compared.both_right)),
        ("both wrong", str(compared.both_wrong)),
    ]


def _format_interval(compared: ComparisonReport) -> str:
    if compared.interval is None:
        return words.NOT_MEASURED
    low, high = compared.interval
    return f"[{words.number(low)}, {words.number(high)}] {compared.interval_method}"


def _format_number(value: float | None) -> str:
    return words.NOT_MEASURED if value is None else words.number(value)


def _format_mean(side: Side) -> str:
    return f"{_format_number(side.mean)} (n={side.scored_items})"


def _format_changes(compared: ComparisonReport) -> str:
    if not compared.worst:
        return ""
    rows = [
        (escape_text(change.id), words.number(change.base), words.number(change.cand))
        for change in compared.worst[:SHOWN_CHANGES]
    ]
    lines = _render_table(("Item", "Base", "Candidate"), rows, escaped=True)
    more = compared.worsened - len(rows)
    return f"{lines}\n\n{words.more_rows(more)}" if more > 0 else lines


def _list_missing_names(compared: ComparisonReport) -> list[tuple[str, tuple[str, ...]]]:
    lists = (
        ("Errored", compared.error_ids),
        ("Without this score", compared.unscored_ids),
        ("Only here", compared.unpaired_ids),
    )
    return [
        (f"{title}: {side}", names)
        for title, sides in lists
        for side, names in (("base", sides.base), ("candidate", sides.cand))
        if names
    ]


def _format_missing(compared: ComparisonReport) -> list[str]:
    sections = []
    for title, names in _list_missing_names(compared):
        shown = [f"- {escape_text(name)}" for name in names[:SHOWN_CHANGES]]
        if len(names) > SHOWN_CHANGES:
            shown.append(f"- {len(names) - SHOWN_CHANGES} more")
        sections.append(_render_section(title, "\n".join(shown)))
    return sections


def _render_list(title: str, items: Sequence[str]) -> str:
    return _render_section(title, "\n".join(f"- {escape_text(item)}" for item in items))


def _render_section(title: str, body: str) -> str:
    return f"### {title}\n\n{body}" if body else ""


def _render_table(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, escaped: bool = False
) -> str:
    rule = ("---", *("---:" for _ in head[1:]))
    body = rows if escaped else [tuple(escape_text(cell) for cell in row) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def _align_columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    clean = [tuple(words.one_line(cell) for cell in row) for row in rows]
    widths = [max(len(row[place]) for row in clean) for place in range(len(clean[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in clean
    ]
