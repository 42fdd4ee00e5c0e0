"""The rules of each record of a run log, as rows: a place, a condition, a demand, a sentence.

A record that breaks one of ``*_RULES`` is refused. ``*_REMARKS`` are named in the report on the
file. ``run_file_rules`` has the rules across records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter, le
from typing import Any, Final

from msgspec import UNSET

from gatemark.evidence.record_rules import (
    ABSENT,
    MISSING,
    NOT_FALSE,
    PRESENT,
    RecordRule,
    RemarkRule,
    any_of,
    differs,
    equals,
    fits,
    follows_from,
    matches,
    none_of,
)
from gatemark.plugins.runlog.records.names import (
    count_ctu,
    name_decision,
    name_decisions,
    name_event,
    name_events,
)
from gatemark.plugins.runlog.records.run import (
    LAST_FIELD,
    PARTS,
    PROVENANCE_KEYS,
    SEMANTIC_FIELDS,
    SOURCE_VARIANTS,
    Parts,
    SummaryContent,
)


def _is_ordered(end: int | None, start: int | None) -> bool:
    return start is None or end is None or 0 <= start <= end


def _are_ordered(ends: Sequence[Any], starts: Sequence[Any]) -> bool:
    """Whether all of many windows are whole, and end after they start."""
    return (
        set(map(type, starts)) == set(map(type, ends)) == {int}
        and min(starts) >= 0
        and all(map(le, starts, ends))
    )


_ORDERED: Final = fits(_is_ordered, "start_seq", check_all=_are_ordered)
_ID_SAYS: Final = "got {value!r}, expected {wanted!r}"
_PROVENANCE: Final = tuple(
    RecordRule(f"$.{key}", must=MISSING, says="belongs to run_meta, nowhere else")
    for key in PROVENANCE_KEYS
)

OLDER_META_RULES: Final = (
    RecordRule("$.determinism.json_sort_keys", must=NOT_FALSE, says="got false, expected true"),
)
META_RULES: Final = (
    *OLDER_META_RULES,
    RecordRule(
        "$.schema_version",
        must=matches(r"^1\.5\.[0-9]+$"),
        says="unknown version {value!r} "
        "(known: 1.0 to 1.2 in one object, 1.3 to 1.5 with a record per line)",
    ),
)
FLUSH_RULES: Final = (
    RecordRule(
        "$.end_seq",
        must=_ORDERED,
        says="window must be ordered, got [{record.start_seq}, {record.end_seq}]",
    ),
    *_PROVENANCE,
)
DECISION_RULES: Final = (
    RecordRule(
        "$.decision_id",
        must=follows_from(
            name_decision, "case_id", "variant_id", "decision_index", make_all=name_decisions
        ),
        says=_ID_SAYS,
    ),
    *_PROVENANCE,
)
EVENT_RULES: Final = (
    RecordRule(
        "$.event_id",
        must=follows_from(name_event, "case_id", "variant_id", "event_index", make_all=name_events),
        says=_ID_SAYS,
    ),
    *_PROVENANCE,
)


def _state_policy_rules() -> Iterator[RemarkRule]:
    """Yield which trigger policy belongs to which variant."""
    place, name = "$.trigger_policy", "variant_policy"
    yield RemarkRule(
        place,
        name=name,
        when={"variant_id": none_of(SOURCE_VARIANTS)},
        must=PRESENT,
        says="trigger_policy is missing; a variant of your own, such as {record.variant_id}, "
        f"must have one of {', '.join(PARTS)}",
    )
    for variant, policy in SOURCE_VARIANTS.items():
        yield RemarkRule(
            place,
            name=name,
            when={"variant_id": variant},
            must=any_of(ABSENT, equals(policy)),
            says=f"must be {policy} under {variant}, got {{value}}",
        )


def state_variant_rules(parts: Parts) -> dict[str, tuple[RemarkRule, ...]]:
    """Return what the records of a variant with these parts must say, by their kind."""
    name = "variant_records"
    return {
        "tokengate_flush": (
            RemarkRule(
                "$.trigger_reason",
                name=name,
                must=differs("turn_end"),
                says="turns end no flush of {record.variant_id}; "
                "only V1 waits for the end of turns",
            ),
        ),
        "buffer_decision": ()
        if parts.novelty or not parts.buffer
        else (
            RemarkRule(
                "$.filter_results",
                name=name,
                must=fits(
                    lambda found: getattr(found, "novelty_passed", None) not in (True, False)
                ),
                says="novelty_passed must be null under {record.variant_id}, "
                "which does not check novelty, got {value.novelty_passed}",
            ),
        ),
        "summary_event": (
            RemarkRule(
                "$.trigger_type",
                name=name,
                must=any_of(ABSENT, equals(parts.trigger)),
                says=f"must be {parts.trigger} under {{record.variant_id}}, got {{value}}",
            ),
        ),
    }


META_REMARKS: Final = tuple(_state_policy_rules())
WINDOW_REMARKS: Final = (
    RemarkRule(
        "$.end_seq",
        name="window_order",
        must=_ORDERED,
        says="the window [{record.start_seq}, {record.end_seq}] ends before it starts",
        grade="warning",
    ),
)
"""A warning: if agents take turns, logs that follow the source have such windows."""


def _measure_all(sizes: Sequence[Any], texts: Sequence[str]) -> bool:
    return list(sizes) == list(map(count_ctu, texts))


_fields_of: Final = attrgetter(*SEMANTIC_FIELDS)


def _is_text(text: str, content: SummaryContent | None) -> bool:
    """Whether a text is the first fields of a summary; one that lacks any of them cannot tell."""
    if content is None:
        return True
    try:
        wanted = " ".join(_fields_of(content))
    except TypeError:
        return True
    return text == wanted or text.strip() == wanted.strip()


def _is_older_text(text: str, content: SummaryContent | None) -> bool:
    """Whether a text is the fields of a summary, as up to 1.4 with or without the last one."""
    if _is_text(text, content) or content is None:
        return True
    last = getattr(content, LAST_FIELD)
    return last is not UNSET and text.strip() == " ".join((*_fields_of(content), last)).strip()


def _state_summary_remarks(is_text: Any) -> Iterator[RemarkRule]:
    """Yield that the size of a summary is that of its text, and the text that of its fields."""
    yield RemarkRule(
        "$.summary_ctu",
        name="summary_size",
        must=fits(
            lambda size, text: size == count_ctu(text),
            "summary_semantics_text",
            check_all=_measure_all,
            wanted=count_ctu,
        ),
        says="must be {wanted}, the size of summary_semantics_text, got {value}",
    )
    yield RemarkRule(
        "$.summary_semantics_text",
        name="semantics_text",
        must=fits(is_text, "summary_content"),
        says=f"must be the first {len(SEMANTIC_FIELDS)} fields of summary_content, "
        "joined by spaces",
    )


EVENT_REMARKS: Final = (*WINDOW_REMARKS, *_state_summary_remarks(_is_text))
OLDER_EVENT_REMARKS: Final = (*WINDOW_REMARKS, *_state_summary_remarks(_is_older_text))
