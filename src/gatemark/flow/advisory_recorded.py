"""Earlier decisions as the answers of a service that is not there."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from gatemark.advisory.references import TaxonomyOf
from gatemark.advisory.reply import Advice, NoAdvice, read_reply
from gatemark.core.advisory import Taxonomy
from gatemark.core.advisory_record import Decision
from gatemark.core.errors import BadInputError
from gatemark.intake.dataset import json_rows
from gatemark.intake.limits import Limits
from gatemark.intake.source import inspect_source

MAX_PROBLEMS = 20

Recording = Mapping[str, Advice | NoAdvice]
"""What was recommended for each fixture."""


def read_recording(path: str, taxonomy_of: TaxonomyOf) -> Recording:
    """The recommendations of a decisions file; of several for one fixture, the last counts.

    Decisions that held no usable recommendation are left out, so that they stay unanswered.
    """
    found: dict[str, Advice | NoAdvice] = {}
    problems: list[str] = []
    for place, value in json_rows(inspect_source(path), Limits()):
        if not isinstance(value, dict):
            problems.append(f"{place}: must be an object")
            continue
        try:
            decision = msgspec.convert(value, Decision)
        except msgspec.ValidationError:
            problems.append(f"{place}: is not an advisory decision record")
            continue
        name = decision.source.fixture_id
        if isinstance(name, str) and decision.fallback.kind != "service_unavailable":
            found[name] = _advice(decision, taxonomy_of(decision.input_class))
    if problems:
        raise BadInputError(
            tuple(problems[:MAX_PROBLEMS]), unlisted_count=max(0, len(problems) - MAX_PROBLEMS)
        )
    if not found:
        raise BadInputError(f"{path}: holds no recommendations")
    return found


def _advice(decision: Decision, taxonomy: Taxonomy) -> Advice | NoAdvice:
    """The recommendation as if it were told now; bad conduct stays with it."""
    flags = msgspec.structs.asdict(decision.authority_flags)
    said = {
        **msgspec.to_builtins(decision.recommendation),
        "confidence": msgspec.to_builtins(decision.confidence).get("score"),
        "model": msgspec.to_builtins(decision.service).get("model"),
        "authority": {name: wish for name, wish in flags.items() if wish is not UNSET},
        "actions": list(decision.allowed_actions),
        "performed": decision.actual_action.performed,
    }
    advice = read_reply(said, None, taxonomy)
    if decision.outcome.error_type == "privacy_violation":
        worse = msgspec.structs.replace(advice.conduct, echoed=True)
        return msgspec.structs.replace(advice, conduct=worse)
    return advice
