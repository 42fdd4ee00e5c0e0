"""Answer questions from the recommendations of an earlier decisions file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET

from gatemark.core.errors import BadInputError
from gatemark.evidence.reading_choices import Limits
from gatemark.evidence.rows import BadLine, json_rows
from gatemark.evidence.source import inspect_source
from gatemark.plugins.advisory.dry_run.calls import NOT_READ
from gatemark.plugins.advisory.dry_run.leaks import OTHER_FIELD, Leak
from gatemark.plugins.advisory.dry_run.question import CallObservation, CallQuestion
from gatemark.plugins.advisory.dry_run.reply import Advice, Conduct, NoAdvice, read_reply, withhold
from gatemark.plugins.advisory.dry_run.write_record import make_record
from gatemark.plugins.advisory.fixtures.files import refuse_problems
from gatemark.plugins.advisory.fixtures.fixture import TaxonomyOf
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.plugins.advisory.record_rules import BREACHES
from gatemark.plugins.advisory.taxonomy import Taxonomy

NOT_RECORDED = "recording_has_no_answer"
RecordedAdvice = Mapping[str, Advice | NoAdvice]
"""What was recommended for each fixture."""


def read_recording(path: str, taxonomy_of: TaxonomyOf) -> RecordedAdvice:
    """Return the recommendations of a decisions file; the last one of a fixture counts.

    Decisions without a usable recommendation stay unanswered. Bad conduct is never overwritten by a
    later record.
    """
    found: dict[str, Advice | NoAdvice] = {}
    problems: list[str] = []
    for place, value in json_rows(inspect_source(path), Limits()):
        if not isinstance(value, dict):
            why = value.reason if isinstance(value, BadLine) else "must be an object"
            problems.append(f"{place}: {why}")
            continue
        try:
            decision = msgspec.convert(value, AdvisoryDecision)
        except msgspec.ValidationError:
            problems.append(f"{place}: is not an advisory decision record")
            continue
        name = decision.source.fixture_id
        if isinstance(name, str):
            advice = _read_advice(decision, taxonomy_of(decision.input_class))
            earlier = found.get(name)
            conduct = (
                advice.conduct
                if earlier is None
                else _join_conduct(earlier.conduct, advice.conduct)
            )
            if decision.fallback.kind == "service_unavailable":
                advice = earlier or NoAdvice(NOT_RECORDED)
            found[name] = msgspec.structs.replace(advice, conduct=conduct)
    refuse_problems(problems)
    if not any(isinstance(advice, Advice) for advice in found.values()):
        raise BadInputError(f"{path}: holds no recommendations")
    return found


def _join_conduct(left: Conduct, right: Conduct) -> Conduct:
    return Conduct(
        requested=left.requested | right.requested,
        acted=left.acted or right.acted,
        leaks=tuple(sorted({*left.leaks, *right.leaks})),
    )


def _read_advice(decision: AdvisoryDecision, taxonomy: Taxonomy) -> Advice | NoAdvice:
    """Return the recommendation as if it were given now; bad conduct stays with it."""
    flags = msgspec.structs.asdict(decision.authority_flags)
    violated = {rule.kind for rule, _ in BREACHES.find_broken(decision)}
    said = {
        **msgspec.to_builtins(decision.recommendation),
        "confidence": msgspec.to_builtins(decision.confidence).get("score"),
        "model": msgspec.to_builtins(decision.service).get("model"),
        # A missing flag is a violation, and stays one.
        "authority": {name: None if value is UNSET else value for name, value in flags.items()},
        "actions": list(decision.allowed_actions),
        "performed": "side_effect" in violated,
    }
    advice = read_reply(said, None, taxonomy)
    if "privacy" in violated:
        leaks = (*advice.conduct.leaks, Leak("recorded_violation", OTHER_FIELD))
        worse = msgspec.structs.replace(advice.conduct, leaks=leaks)
        return msgspec.structs.replace(advice, conduct=worse)
    return advice


def replay_recording(
    recording: RecordedAdvice, questions: Sequence[CallQuestion], at: datetime
) -> list[AdvisoryDecision]:
    """Return earlier recommendations under new ids; nothing is called, so nothing is timed."""
    seen = CallObservation(None, NOT_READ, NOT_READ, alone=False)
    answers: list[AdvisoryDecision] = []
    for question in questions:
        name = question.fixture.fixture_id if question.fixture is not None else ""
        advice: Advice | NoAdvice = recording.get(name) or NoAdvice(NOT_RECORDED)
        advice = withhold(advice, msgspec.to_builtins(advice), question.payload)
        answers.append(make_record(question, advice, at.astimezone(UTC), seen))
    return answers
