"""What is refused at one door is refused at the others, with the same sentence."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any, NamedTuple

import pytest
from httpx2 import Client
from tests.doors.acts import ACTS, HERE
from tests.server.scene import ASSET, Scene

from gatemark.core.request_fields import request_fields
from gatemark.server.views.moves import MOVES

Run = Callable[..., Any]
VOTE = {"stage": "canary"}
SAID = {"note": "because"}
UNSEEN = {"note": "\u200b\u3164\u2800\ufe0f\ufeff\u00ad"}
"""A note of signs that show nothing."""
OTHER = "sha256:" + "0" * 64


class Refusal(NamedTuple):
    """Who asks what of which version, and what every door says."""

    name: str
    actor: str
    version: str
    given: dict[str, Any]
    sentence: str


REFUSALS = [
    Refusal("approve", "bob", "4.0.0", {**VOTE, "note": " "}, "a vote needs a note that says why"),
    Refusal("demote", "olu", "1.0.0", {"note": " "}, "a demotion needs a note that says why"),
    Refusal("waive", "olu", "4.0.0", {"gate": "replay", "note": " "}, "an override needs a note"),
    Refusal(
        "confirm-break-glass", "bob", "2.0.0", {"note": " "}, "a break-glass review needs a note"
    ),
    Refusal("approve", "bob", "4.0.0", {**VOTE, **UNSEEN}, "a vote needs a note that says why"),
    Refusal("demote", "olu", "1.0.0", UNSEEN, "a demotion needs a note that says why"),
    Refusal("waive", "olu", "4.0.0", {"gate": "replay", **UNSEEN}, "an override needs a note"),
    Refusal("confirm-break-glass", "bob", "2.0.0", UNSEEN, "a break-glass review needs a note"),
    Refusal(
        "promote",
        "olu",
        "4.0.0",
        {"to": "enabled", "incident": "INC-8", **UNSEEN},
        "break-glass needs an incident and a note",
    ),
    Refusal(
        "promote", "olu", "4.0.0", {"to": "live"}, "'live' is not one of 'evaluating', 'rejected'"
    ),
    Refusal(
        "promote", "olu", "4.0.0", {"to": "enabled", "incident": "INC-8"}, "break-glass needs an"
    ),
    Refusal("promote", "olu", "4.0.0", {"to": "retired", "incident": "INC-8"}, "can only enable"),
    Refusal(
        "promote", "olu", "4.0.0", {"to": "canary", "note": "x" * 2001}, "2000 characters, got 2001"
    ),
    Refusal(
        "promote", "olu", "4.0.0", {"to": "canary", "result_ids": ["mine"]}, "must be a result id"
    ),
    Refusal(
        "promote", "olu", "4.0.0", {"to": "canary", "result_ids": ["00"]}, "must be a result id"
    ),
    Refusal(
        "promote", "tom", "4.0.0", {"to": "canary"}, "tom must be operator or approver to take"
    ),
    Refusal("approve", "ann", "4.0.0", {**VOTE, **SAID}, "ann is the author of triage@4.0.0"),
    Refusal(
        "approve", "olu", "4.0.0", {**VOTE, **SAID}, "olu must be approver or security_approver"
    ),
    Refusal(
        "approve", "bob", "4.0.0", {**VOTE, **SAID, "decision": "maybe"}, "'maybe' is not one of"
    ),
    Refusal(
        "approve", "bob", "4.0.0", {**VOTE, **SAID, "candidate_digest": OTHER}, "changed since you"
    ),
    Refusal(
        "waive", "olu", "4.0.0", {**SAID, "gate": "luck"}, "'luck' is not one of 'schema', 'eval'"
    ),
    Refusal(
        "waive",
        "olu",
        "4.0.0",
        {**SAID, "gate": "replay", "hours": 0},
        "not in the range 0<x",
    ),
    Refusal(
        "waive", "olu", "4.0.0", {**SAID, "gate": "eval"}, "does not allow an override of eval"
    ),
    Refusal(
        "waive", "olu", "4.0.0", {**SAID, "gate": "replay", "hours": 8000}, "must expire within"
    ),
    Refusal("pause", "olu", "4.0.0", {"reason": "bored"}, "'bored' is not one of 'inconclusive'"),
    Refusal("pause", "olu", "9.0.0", {}, "triage has no version 9.0.0"),
    Refusal("resume", "tom", "3.0.0", {}, "tom must be operator to resume"),
    Refusal(
        "resume", "olu", "3.0.0", {"environment": "a b"}, "'a b' must be Latin letters, digits"
    ),
    Refusal("demote", "olu", "1.0.0", {**SAID, "to": "enabled"}, "'enabled' is not one of"),
    Refusal("rollback", "olu", "2.0.0", {"to": "8.0.0"}, "triage has no version 8.0.0"),
]


def on_the_command_line(gatemark: Run, scene: Scene, asked: Refusal) -> tuple[bool, str]:
    name, actor, version, given, _ = asked
    kind = MOVES[name].command
    words = [*ACTS[name].command.split(), f"{ASSET}@{version}"]
    for field in request_fields(kind):
        values = given.get(field.name, [])
        for value in values if isinstance(values, list) else [values]:
            words += [
                field.flags[0] if field.flags else "--" + field.name.replace("_", "-"),
                str(value),
            ]
    if name == "confirm-break-glass":
        words.append("--confirm-break-glass")
    ran = gatemark(*words, "--actor", actor, "--store", scene.store)
    return ran.code in (1, 2), ran.err


def over_http(scene: Scene, client: Client, asked: Refusal) -> tuple[bool, str]:
    name, actor, version, given, _ = asked
    headers = scene.session(client, actor)
    headers["If-Match"] = client.get(f"/api/v1{HERE}").headers["etag"]
    address = f"/api/v1{ACTS[name].route}".format(asset=ASSET, version=version)
    body = given if "{version}" in ACTS[name].route else {**given, "version": version}
    answer = client.post(address, json=body, headers=headers)
    return answer.status_code in (403, 409, 422), " ".join(
        [answer.json()["detail"], *answer.json().get("reasons", ())]
    )


def on_the_page(scene: Scene, client: Client, asked: Refusal) -> tuple[bool, str]:
    name, actor, version, given, _ = asked
    scene.session(client, actor)
    tag = client.get(f"/api/v1{HERE}").headers["etag"]
    own = {"form_mark": scene.mark(client), "tag": tag}
    address = ACTS[name].form
    if name == "approve":
        address = f"/approvals/{ASSET}/{version}"
    else:
        own["version"] = version
    answer = client.post(address, data={**own, **given})
    return answer.status_code in (403, 409, 422), unescape(answer.text)


@pytest.mark.parametrize("asked", REFUSALS, ids=lambda one: f"{one.name}: {one.sentence}")
def test_every_door_refuses_with_the_same_sentence(
    place: tuple[Scene, Client], gatemark: Run, asked: Refusal
) -> None:
    scene, client = place
    before = scene.workspace.events.head().seq
    answers = {
        "command line": on_the_command_line(gatemark, scene, asked),
        "HTTP": over_http(scene, client, asked),
        "page": on_the_page(scene, client, asked),
    }
    assert {door for door, (refused, _) in answers.items() if not refused} == set(), answers
    for door, (_, text) in answers.items():
        # Click wraps the message of a wrong option.
        assert asked.sentence in " ".join(text.split()), f"{door}: {text[-600:]}"
    assert scene.workspace.events.head().seq == before
