"""Every act is the same act on the command line, over HTTP and on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from httpx2 import Client
from tests.doors.offers import Forms, Offers, body_offers, command_offers
from tests.web.scene import ASSET, Scene

Run = Callable[..., Any]


class Doors(NamedTuple):
    """Where one act is found, and what its options are called where their name is shorter."""

    command: str
    route: str
    page: str
    form: str
    options: Mapping[str, str] = MappingProxyType({})


VERSION = "/assets/{asset}/versions/{version}"
HERE = f"/assets/{ASSET}"
ACTS = {
    "promote": Doors(
        "promote",
        f"{VERSION}/promotion",
        HERE,
        f"{HERE}/promote",
        {"cite": "result_ids", "break_glass": "incident"},
    ),
    "approve": Doors(
        "approve",
        f"{VERSION}/votes",
        f"/approvals/{ASSET}/4.0.0",
        f"/approvals/{ASSET}/4.0.0",
        {"cite": "result_ids", "to": "stage"},
    ),
    "demote": Doors(
        "demote", "/assets/{asset}/demotion", HERE, f"{HERE}/demote", {"reason": "note"}
    ),
    "rollback": Doors("rollback", "/assets/{asset}/rollback", HERE, f"{HERE}/rollback"),
    "pause": Doors("asset pause", f"{VERSION}/pause", HERE, f"{HERE}/pause"),
    "resume": Doors("asset resume", f"{VERSION}/resumption", HERE, f"{HERE}/resume"),
    "waive": Doors("asset waive", f"{VERSION}/waiver", HERE, f"{HERE}/waive"),
    "confirm-break-glass": Doors(
        "approve", f"{VERSION}/break-glass-review", HERE, f"{HERE}/confirm-break-glass"
    ),
    "labels": Doors(
        "review labels create",
        "/labels",
        "/new-labels",
        "/new-labels",
        {"label": "labels", "reviewer": "reviewers"},
    ),
    "add": Doors(
        "asset add",
        VERSION,
        "/new-version",
        "/new-version",
        {"pin": "pins", "scope_change": "is_scope_change"},
    ),
}
OF_THE_DOOR = {
    "command line": {"actor", "store", "json", "expect", "dry_run", "confirm_break_glass"},
    "HTTP": {"version", "name", "samples"},
    "page": {"form_mark", "tag", "asset", "version", "name", "samples"},
}
"""What a door has for itself: who asks, which store, what they have seen; and the subject."""
FILES = {"add": {"file", "files", "schema"}}
"""Files of the person who asks: a server cannot read them."""


OTHERWISE = {
    # The command has one of two options: this one, or --confirm-break-glass.
    ("command line", "approve", "stage"),
    # The form of break-glass access is beside that of a usual promotion.
    ("page", "promote", "incident"),
}
"""Where a door cannot say what is required as the others do."""


def offered(place: tuple[Scene, Client], name: str) -> dict[str, Offers]:
    """What each door offers for an act, without what is the door's own."""
    scene, client = place
    doors = ACTS[name]
    scene.session(client, "olu")
    document = client.get("/api/v1/openapi.json").json()
    forms = Forms(client.get(doors.page).text).forms
    assert doors.form in forms, sorted(forms)
    found = {
        "command line": command_offers(doors.command, doors.options),
        "HTTP": body_offers(document, doors.route),
        "page": forms[doors.form],
    }
    if name == "confirm-break-glass":
        # An option of the command that votes; what only a vote has is not its own.
        found["command line"] = {
            field: offer
            for field, offer in found["command line"].items()
            if field not in {"stage", "result_ids", "decision", "cite", "to"} | BOUND
        }
    own = FILES.get(name, set())
    return {
        door: {
            field: offer
            for field, offer in offers.items()
            if field not in OF_THE_DOOR[door] | (own if door == "command line" else set())
        }
        for door, offers in found.items()
    }


BOUND = {"candidate_digest", "policy_digest"}


@pytest.mark.parametrize("name", ACTS)
def test_every_door_offers_the_same_of_an_act(place: tuple[Scene, Client], name: str) -> None:
    found = offered(place, name)
    differences = []
    api = found.pop("HTTP")
    for door, offers in found.items():
        for field in sorted({*api, *offers}):
            if field not in offers:
                differences.append(f"{field}: over HTTP, not at the {door}")
                continue
            if field not in api:
                differences.append(f"{field}: at the {door}, not over HTTP")
                continue
            here, there = offers[field], api[field]
            if door == "page" and (here.is_fixed or here.words):
                # A form is made for a version and its stage: it offers what they allow.
                here = here._replace(
                    is_fixed=False,
                    is_required=there.is_required,
                    default=there.default,
                    max_length=there.max_length,
                    words=there.words if here.words <= (there.words or here.words) else here.words,
                )
            if (door, name, field) in OTHERWISE:
                here = here._replace(is_required=there.is_required)
            if door == "command line":
                # Click has no name for the length of a text; the table below tries it.
                here = here._replace(max_length=there.max_length)
            if here != there:
                differences.append(f"{field}: {here} at the {door}, {there} over HTTP")
    assert not differences, "\n".join(differences)
