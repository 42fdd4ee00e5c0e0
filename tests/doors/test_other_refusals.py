"""The same of acts about reviews, labels, measurements and people, whose commands name more."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pytest
from httpx2 import Client
from tests.doors.acts import ACTS
from tests.doors.test_refusals import UNSEEN
from tests.server.scene import ASSET, Scene

from gatemark.core.request_fields import request_fields
from gatemark.release.attribution.review import ReviewAttribution
from gatemark.release.drift.close import CloseRequest
from gatemark.release.drift.push import PushPoints
from gatemark.release.lifecycle.commands import GrantRoles, ReportService
from gatemark.release.review.close import CloseReview
from gatemark.release.review.create import CreateReview, VoteRequest
from gatemark.release.review.labelling import LabelPlan
from gatemark.release.review.labels import AcceptLabels, GiveLabel
from gatemark.release.review.status import LookAtNumbers

Run = Callable[..., Any]
KINDS: dict[str, type[msgspec.Struct]] = {
    "close-review": CloseReview,
    "look": LookAtNumbers,
    "vote": VoteRequest,
    "label": GiveLabel,
    "accept-labels": AcceptLabels,
    "verdicts": ReviewAttribution,
    "review": CreateReview,
    "labels": LabelPlan,
    "roles": GrantRoles,
    "close-episode": CloseRequest,
    "points": PushPoints,
    "service": ReportService,
}
ARGUMENTS = {
    "vote": ("answered",),
    "label": ("item", "label"),
    "labels": ("name",),
    "review": ("name",),
    "roles": ("roles",),
}
"""The fields that a command is told without their name, after the subject."""
NOTHING = UNSEEN["note"]
PAIR = {"token": "0" * 32, "answered": "a"}
SHOWN = {"token": ""}
"""A pair that somebody was shown."""
LINE = {"schema": "gatemark.sample/1", "id": "q", "input": "", "output": "x", "scores": {}}
SENT = json.dumps(LINE) + "\n"
SET = {"name": "moods", "labels": ["good", "bad"], "source": "a pilot", "samples": SENT}
MORE = {"name": "more", "samples": {"candidate": SENT, "baseline": SENT}}
SPAN = {"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T09:00:00Z", "good": 1, "total": 1}


class Asked(NamedTuple):
    """Who asks what about which subject, and what every door says."""

    name: str
    actor: str
    subject: str
    given: dict[str, Any]
    sentence: str


REFUSALS = [
    Asked("close-review", "eve", "letters", {"early": NOTHING}, "early needs a reason that says"),
    Asked("close-review", "eve", "letters", {"early": "x" * 2001}, "2000 characters, got 2001"),
    Asked("close-review", "eve", "letters", {"early": "a\x07"}, "without control characters"),
    Asked("close-review", "bob", "letters", {"early": "now"}, "bob must be pack_owner or evalu"),
    Asked("look", "tom", "open", {}, "tom is viewer and may look but not judge"),
    Asked("look", "eve", "letters", {}, "numbers are hidden until the review is closed"),
    Asked("vote", "tom", "letters", PAIR, "tom is viewer and may look but not judge"),
    Asked("vote", "bob", "letters", PAIR, "bob has not seen pair"),
    Asked("vote", "bob", "letters", {**SHOWN, "answered": "skip"}, "needs a reason"),
    Asked("vote", "bob", "letters", {**PAIR, "reason": "x" * 2001}, "2000 characters, got 2001"),
    Asked("label", "tom", "tone", {"item": "mail-000", "label": "good"}, "may look but not judge"),
    Asked("label", "bob", "tone", {"item": "mail-000", "label": "fine"}, "is not a label of tone"),
    Asked("label", "bob", "tone", {"item": "q", "label": "good"}, "tone lacks item 'q'"),
    Asked("accept-labels", "bob", "tone", {}, "bob must be pack_owner to accept labels"),
    Asked("accept-labels", "eve", "tone", {"chosen": {"q": "good"}}, "tone lacks item 'q'"),
    Asked(
        "verdicts", "tom", "", {"verdicts": {"golden_item": "accepted"}}, "to judge a golden item"
    ),
    Asked(
        "verdicts", "eve", "", {"verdicts": {"routing_note": "accepted"}, "note": "x" * 2001}, "got"
    ),
    Asked("labels", "bob", "", SET, "must be author or evaluator or pack_owner to make a label"),
    Asked("labels", "eve", "", {**SET, "name": "a b"}, "'a b' must be a name of Latin letters"),
    Asked("labels", "eve", "", {**SET, "labels": ["good", "good"]}, "labels must be different"),
    Asked("review", "bob", "", MORE, "must be author or evaluator or pack_owner to make a review"),
    Asked("review", "eve", "", {**MORE, "alpha": 0.5}, "0.5 is not in the range 0<x<0.5"),
    Asked("review", "eve", "", {**MORE, "min_decisive": 0}, "0 is not in the range 1<=x<=1000000"),
    Asked(
        "review", "eve", "", {**MORE, "arbiter": "a", "reviewers": ["a"]}, "both reviewer and ar"
    ),
    Asked("roles", "olu", "bob", {"roles": ["viewer"]}, "olu must be admin to grant roles, but is"),
    Asked(
        "roles", "root", "bob", {"roles": ["admin", "operator"]}, "admin cannot be combined with"
    ),
    Asked("roles", "root", "bob", {"roles": ["system"]}, "'system' is not one of"),
    Asked("close-episode", "tom", "00000000", {"reason": "so"}, "tom must be approver or operator"),
    Asked(
        "close-episode", "olu", "00000000", {"reason": NOTHING}, "an episode needs a reason that"
    ),
    Asked("close-episode", "olu", "00000000", {"reason": "so", "cite": "x"}, "must be a result id"),
    Asked(
        "points", "tom", "", {"points": [{}]}, "tom must be evaluator or operator to push points"
    ),
    Asked("service", "tom", ASSET, SPAN, "tom must be"),
    Asked(
        "service", "olu", ASSET, {**SPAN, "good": -1}, "-1 is not in the range 0<=x<=1000000000000"
    ),
    Asked("service", "olu", ASSET, {**SPAN, "end": "today"}, "expected a time such as"),
]


def on_the_command_line(run: Run, scene: Scene, folder: Path, asked: Asked) -> tuple[bool, str]:
    name, given = asked.name, dict(asked.given)
    words = [*ACTS[name].command.split(), *([asked.subject] if asked.subject else [])]
    for field in ARGUMENTS.get(name, ()):
        value = given.pop(field)
        words += value if isinstance(value, list) else [value]
    words += _files(folder, name, given)
    for kind, verdict in given.pop("verdicts", {}).items():
        words += [f"--{verdict.removesuffix('ed')}", kind]
    if name == "look":
        words.append("--look")
    flags = {field.name: field.flags for field in request_fields(KINDS[name])}
    for field, value in given.items():
        flag = flags[field][0] if flags[field] else "--" + field.replace("_", "-")
        pairs = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else value
        for one in pairs if isinstance(pairs, list) else [pairs]:
            words += [flag, str(one)]
    ran = run(*words, "--actor", asked.actor, "--store", scene.store)
    return ran.code in (1, 2), ran.err


def _files(folder: Path, name: str, given: dict[str, Any]) -> list[str]:
    """What a command reads from files: samples, by arm or not, and points."""
    path = folder / "sent.jsonl"
    sent = given.pop("samples", None) or "".join(
        json.dumps(one) + "\n" for one in given.pop("points", ())
    )
    path.write_text(sent if isinstance(sent, str) else SENT)
    if isinstance(sent, dict):
        return ["--candidate", str(path), "--baseline", str(path)]
    return [str(path)] if sent else []


def over_http(scene: Scene, client: Client, asked: Asked, where: str) -> tuple[bool, str]:
    headers = scene.session(client, asked.actor)
    doors = ACTS[asked.name]
    address = _fill(doors.address, where)
    answer = client.request(doors.method, f"/api/v1{address}", json=asked.given, headers=headers)
    told = answer.json()
    return answer.status_code in (403, 404, 409, 422), " ".join(
        [told.get("detail", ""), *told.get("reasons", ())]
    )


def on_the_page(scene: Scene, client: Client, asked: Asked, where: str) -> tuple[bool, str]:
    scene.session(client, asked.actor)
    fields: dict[str, Any] = {"form_mark": scene.mark(client)}
    for name, value in asked.given.items():
        if isinstance(value, dict):
            fields |= {f"{name}:{key}": one for key, one in value.items()}
        else:
            # Lists that are typed are lines; ticked ones are fields of one name.
            is_typed = isinstance(value, list) and name != "roles"
            fields[name] = "\n".join(value) if is_typed else value
    answer = client.post(_fill(ACTS[asked.name].path, where), data=fields)
    return answer.status_code in (403, 404, 409, 422), unescape(answer.text)


def _fill(address: str, where: str) -> str:
    before, brace, rest = address.partition("{")
    return f"{before}{quote(where, safe='')}{rest.partition('}')[2]}" if brace else before


@pytest.mark.parametrize("asked", REFUSALS, ids=lambda one: f"{one.name}: {one.sentence}")
def test_every_door_refuses_with_the_same_sentence(
    place: tuple[Scene, Client], gatemark: Run, tmp_path: Path, asked: Asked
) -> None:
    scene, client = place
    if asked.name == "verdicts":
        scene.session(client, "eve")
        (line,) = client.get("/api/v1/attributions").json()["items"]
        asked = asked._replace(subject=line["attribution"])
    if asked.given.get("token") == "":
        scene.session(client, asked.actor)
        pair = client.get(f"/api/v1/reviews/{asked.subject}/next").json()["pair"]
        asked = asked._replace(given={**asked.given, "token": pair["token"]})
    before = scene.workspace.events.head().seq
    answers = {
        "command line": on_the_command_line(gatemark, scene, tmp_path, asked),
        "HTTP": over_http(scene, client, asked, asked.subject),
    }
    if ACTS[asked.name].page:
        answers["page"] = on_the_page(scene, client, asked, asked.subject)
    assert {door for door, (refused, _) in answers.items() if not refused} == set(), answers
    for door, (_, text) in answers.items():
        assert asked.sentence in " ".join(text.split()), f"{door}: {text[-600:]}"
    assert scene.workspace.events.head().seq == before
