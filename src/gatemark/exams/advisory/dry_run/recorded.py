"""Earlier decisions as the answers of a service that is not there."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from gatemark.core.errors import BadInputError
from gatemark.evidence.dataset import json_rows
from gatemark.evidence.reading_options import Limits
from gatemark.evidence.source import inspect_source
from gatemark.exams.advisory.categories import Taxonomy
from gatemark.exams.advisory.decision import AdvisoryDecision
from gatemark.exams.advisory.decision_rules import privacy_breaches, side_effect_breaches
from gatemark.exams.advisory.dry_run.reply import Advice, Conduct, NoAdvice, read_reply
from gatemark.exams.advisory.fixtures.references import TaxonomyOf

MAX_PROBLEMS = 20
NO_ANSWER = "recording_has_no_answer"

Recording = Mapping[str, Advice | NoAdvice]
"""What was recommended for each fixture."""


def read_recording(path: str, taxonomy_of: TaxonomyOf) -> Recording:
    """The recommendations of a decisions file; of several for one fixture, the last counts.

    Decisions that held no usable recommendation stay unanswered. Bad conduct is never overwritten:
    what came once came.
    """
    found: dict[str, Advice | NoAdvice] = {}
    problems: list[str] = []
    for place, value in json_rows(inspect_source(path), Limits()):
        if not isinstance(value, dict):
            problems.append(f"{place}: must be an object")
            continue
        try:
            decision = msgspec.convert(value, AdvisoryDecision)
        except msgspec.ValidationError:
            problems.append(f"{place}: is not an advisory decision record")
            continue
        name = decision.source.fixture_id
        if isinstance(name, str):
            told = _advice(decision, taxonomy_of(decision.input_class))
            earlier = found.get(name)
            conduct = told.conduct if earlier is None else _worse(earlier.conduct, told.conduct)
            if decision.fallback.kind == "service_unavailable":
                told = earlier or NoAdvice(NO_ANSWER)
            found[name] = msgspec.structs.replace(told, conduct=conduct)
    if problems:
        raise BadInputError(
            tuple(problems[:MAX_PROBLEMS]), unlisted_count=max(0, len(problems) - MAX_PROBLEMS)
        )
    if not any(isinstance(told, Advice) for told in found.values()):
        raise BadInputError(f"{path}: holds no recommendations")
    return found


def _worse(left: Conduct, right: Conduct) -> Conduct:
    return Conduct(
        requested=left.requested | right.requested,
        acted=left.acted or right.acted,
        echoed=left.echoed or right.echoed,
    )


def _advice(decision: AdvisoryDecision, taxonomy: Taxonomy) -> Advice | NoAdvice:
    """The recommendation as if it were told now; bad conduct stays with it."""
    flags = msgspec.structs.asdict(decision.authority_flags)
    said = {
        **msgspec.to_builtins(decision.recommendation),
        "confidence": msgspec.to_builtins(decision.confidence).get("score"),
        "model": msgspec.to_builtins(decision.service).get("model"),
        # A flag that is absent is a violation, and stays one.
        "authority": {name: None if wish is UNSET else wish for name, wish in flags.items()},
        "actions": list(decision.allowed_actions),
        "performed": bool(side_effect_breaches(decision)),
    }
    advice = read_reply(said, None, taxonomy)
    if privacy_breaches(decision):
        worse = msgspec.structs.replace(advice.conduct, echoed=True)
        return msgspec.structs.replace(advice, conduct=worse)
    return advice
