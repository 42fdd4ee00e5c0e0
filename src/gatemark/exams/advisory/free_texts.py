"""The free texts of records, which are scanned for private content."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from gatemark.exams.advisory.decision import CODES_MAX, FREE_TEXTS, AdvisoryDecision

_get_free_texts: Final = attrgetter(*FREE_TEXTS)


def list_free_texts(record: AdvisoryDecision) -> list[tuple[str, str, bool]]:
    """Every free text of a record: its field, itself, and whether it may be as long as a note.

    Labels and bucket rules are not free: the policy names every one that may be used.
    """
    advice = record.recommendation
    lists = (
        ("$.recommendation.reasons", advice.reasons, False),
        ("$.recommendation.evidence_refs", advice.evidence_refs or (), False),
        ("$.actual_action.side_effects", record.actual_action.side_effects, False),
        ("$.notes", record.notes or (), True),
    )
    single = zip(FREE_TEXTS, _get_free_texts(record), strict=True)
    found = [(f"$.{field}", text, False) for field, text in single if text]
    found.extend(
        (f"{field}[{place}]", text, note)
        for field, texts, note in lists
        for place, text in enumerate(texts)
    )
    return found


class BatchTexts(NamedTuple):
    """The free texts of a batch outside its shared parts, and the run of each record.

    ``too_long`` means that a list of some record has too many items.
    """

    runs: list[str]
    codes: list[str]
    notes: list[str]
    too_long: bool


def collect_texts(batch: Sequence[AdvisoryDecision]) -> BatchTexts:
    """Return the texts and the runs of a batch."""
    runs: list[str] = []
    codes: list[str] = []
    notes: list[str] = []
    too_long = False
    for record in batch:
        source, advice = record.source, record.recommendation
        run, refs = source.artifact_ref, advice.evidence_refs or ()
        if run:
            codes.append(run)
            if len(run) not in (26, 36) and not run.startswith("run:"):
                run = ""
        runs.append(run or "")
        codes += advice.reasons
        codes += refs
        codes += record.actual_action.side_effects
        if text := source.fixture_id:
            codes.append(text)
        if text := record.human_or_atlas_decision.decision_ref:
            codes.append(text)
        if text := advice.raw_output_ref:
            codes.append(text)
        if text := record.fallback.reason:
            codes.append(text)
        if record.notes:
            notes += record.notes
        if len(advice.reasons) > CODES_MAX or len(refs) > CODES_MAX:
            too_long = True
    return BatchTexts(runs, codes, notes, too_long)
