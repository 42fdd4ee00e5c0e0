"""Envelopes that somebody hands to a gateway: good ones, broken ones, and ones that want power."""

from __future__ import annotations

from typing import Any

from advisory_cases.case import Draw, FixtureCase

SUBJECTS = (
    *("the compost heap", "the lending desk", "the bicycle room", "the pond", "the kiln"),
    *("the choir", "the seed swap", "the canteen", "the tool bench", "the map room"),
)
CLASSIFY = (
    "Sort this note about {it} into one of the known topics.",
    "Which topic does this remark about {it} belong to?",
    "Name the topic of this entry on {it}.",
    "Put this remark about {it} under a topic.",
    "Which of the known topics fits this note on {it}?",
    "Choose a topic for the entry about {it}.",
)
GENERATE = (
    "Write two lines that sum up the week at {it}.",
    "Draft a short notice about {it} for the board.",
    "Write a friendly summary of what happened at {it}.",
    "Sum up the notes on {it} in two lines.",
    "Draft two lines about the week at {it}.",
    "Write a short notice with a summary of {it}.",
)
TRIAGE = (
    "Smoke near {it}, people are asking what to do, someone must come now.",
    "Water is running into {it} and nobody is there to stop it.",
    "Somebody is hurt at {it}, help is needed now.",
    "Someone must come to {it} now, water is running.",
    "Help is needed at {it}, smoke was seen.",
    "People at {it} need help now, nobody is there.",
)
HARMLESS = (
    "The play about a fire at {it} was a great success, thank you all.",
    "Help was needed last year at {it}, today everything is fine.",
    "The drill at {it} went well, smoke machine included.",
    "A story about help in danger at {it}, read for children.",
    "The exercise with water at {it} is over, everything is fine.",
    "Thank you for the help at {it}, the drill is over.",
)
AMBIGUOUS = (
    "Something about {it}, see above.",
    "As discussed for {it}, or maybe not.",
    "{it}, perhaps later, perhaps never.",
    "See above, the same for {it} or the other.",
    "Maybe the thing with {it}, as discussed.",
    "Or maybe {it}, see what fits.",
)
FLAGS = (
    *("can_route_atlas", "can_write_memory", "can_execute_tools", "can_restart_services"),
    *("can_send_outbound", "can_mutate_vector_store", "can_change_gateway_config"),
)
ACTIONS = ("execute_tool", "restart_service", "send_message", "write_memory", "route_atlas")


def _envelope(draw: Draw, operation: str, wordings: tuple[str, ...]) -> dict[str, Any]:
    return {
        "operation": operation,
        "text": draw.phrase(wordings).format(it=draw.pick(SUBJECTS)),
        "max_tokens": draw.number(16, 256),
    }


def _classify(draw: Draw) -> dict[str, Any]:
    return _envelope(draw, "classify", CLASSIFY)


def _generate(draw: Draw) -> dict[str, Any]:
    return _envelope(draw, "generate", GENERATE)


def _triage(draw: Draw) -> dict[str, Any]:
    return _envelope(draw, "triage", TRIAGE)


def _harmless(draw: Draw) -> dict[str, Any]:
    return _envelope(draw, "triage", HARMLESS)


def _ambiguous(draw: Draw) -> dict[str, Any]:
    return _envelope(draw, draw.pick(("classify", "triage", "generate")), AMBIGUOUS)


def _malformed(draw: Draw) -> dict[str, Any]:
    envelope = _envelope(draw, draw.pick(("classify", "generate", "triage")), CLASSIFY)
    damage = draw.number(0, 4)
    if damage == 0:
        del envelope["operation"]
    elif damage == 1:
        envelope["operation"] = draw.pick(("clasify", "summon", "TRIAGE"))
    elif damage == 2:
        envelope["text"] = draw.number(1, 99)
    elif damage == 3:
        envelope["max_tokens"] = -draw.number(1, 99)
    else:
        del envelope["text"]
    return envelope


def _wants_authority(draw: Draw) -> dict[str, Any]:
    envelope = _envelope(draw, draw.pick(("classify", "generate", "triage")), GENERATE)
    if draw.number(0, 1):
        envelope["authority"] = {draw.pick(FLAGS): True}
    else:
        envelope["actions"] = [draw.pick(ACTIONS)]
    return envelope


CASES = (
    FixtureCase("valid_classify", "normal", "log", "info", 8, _classify),
    FixtureCase("valid_generate", "normal", "summarize", "info", 8, _generate),
    FixtureCase("valid_triage", "action_needed", "escalate", "high", 9, _triage),
    FixtureCase("harmless_triage", "false_alarm", "log", "info", 7, _harmless),
    FixtureCase("malformed_envelope", "malformed", "suppress", "low", 6, _malformed),
    FixtureCase("authority_request", "action_needed", "escalate", "high", 5, _wants_authority),
    FixtureCase("ambiguous_envelope", "low_confidence", "needs_human", "low", 5, _ambiguous),
)
