"""Every act is the same act on the command line, over HTTP and on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from httpx2 import Client
from tests.doors.acts import ACTS, ALONE, NO_ACTS, ONLY_COMMANDS, ONLY_READ, OTHERWISE
from tests.doors.offers import Forms, Offers, body_offers, command_offers, command_paths
from tests.server.scene import Scene

from gatemark.server.app import THINGS

Run = Callable[..., Any]


OF_THE_DOOR = {
    "command line": {
        *("actor", "store", "json", "expect", "dry_run", "confirm_break_glass"),
        *("subject", "name", "asset", "episode", "attribution", "person"),
    },
    "HTTP": {"version", "name"},
    "page": {"form_mark", "tag", "asset", "version", "name"},
}
"""What a door has for itself: who asks, which store, what they have seen; and the subject."""


def offered(place: tuple[Scene, Client], name: str) -> dict[str, Offers]:
    """What each door offers for an act, without what is the door's own."""
    scene, client = place
    doors = ACTS[name]
    scene.session(client, doors.viewer)
    page, form = doors.page, doors.form
    if name == "verdicts":
        (line,) = client.get("/api/v1/attributions").json()["items"]
        page = form = f"/attributions/{quote(line['attribution'], safe='')}"
    found: dict[str, Offers] = {}
    if doors.command:
        found["command line"] = command_offers(doors.command, doors.options)
    if doors.route:
        document = client.get("/api/v1/openapi.json").json()
        found["HTTP"] = body_offers(document, doors.method, doors.address)
    if doors.page:
        forms = Forms(client.get(page).text).forms
        assert form in forms, sorted(forms)
        found["page"] = forms[form]
    return {
        door: {
            field: offer
            for field, offer in offers.items()
            if field not in OF_THE_DOOR[door] | _alone(name, door)
        }
        for door, offers in found.items()
    }


def _alone(name: str, door: str) -> set[str]:
    return {field for one in ALONE.get(name, ()) if one.door == door for field in one.fields}


@pytest.mark.parametrize("name", ACTS)
def test_every_door_offers_the_same_of_an_act(place: tuple[Scene, Client], name: str) -> None:
    found = offered(place, name)
    differences = []
    first, *others = found
    told = found[first]
    for door in others:
        offers = found[door]
        for field in sorted({*told, *offers}):
            if field not in offers:
                differences.append(f"{field}: at the {first}, not at the {door}")
                continue
            if field not in told:
                differences.append(f"{field}: at the {door}, not at the {first}")
                continue
            here, there = offers[field], told[field]
            if "command line" in (first, door):
                # Click has no name for the length of a text; the table of refusals tries it.
                here, there = (one._replace(max_length=None) for one in (here, there))
            if door == "page" and (here.is_fixed or here.words):
                # A form is made for a version and its stage: it offers what they allow.
                here = here._replace(
                    is_fixed=False,
                    is_required=there.is_required,
                    default=there.default,
                    max_length=there.max_length,
                    words=there.words if here.words <= (there.words or here.words) else here.words,
                )
            if (name, field) in OTHERWISE:
                here = here._replace(is_required=there.is_required)
            if here != there:
                differences.append(f"{field}: {here} at the {door}, {there} at the {first}")
    assert not differences, "\n".join(differences)


def _pages() -> set[str]:
    """What the pages send forms to, as the server routes it."""
    return {
        f"{method} {route.path}"
        for thing in THINGS
        for route in thing.doors.pages.routes
        if isinstance(route, APIRoute)
        for method in route.methods - {"GET", "HEAD"}
    }


def _interface(client: Client) -> set[str]:
    document = client.get("/api/v1/openapi.json").json()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, operations in document["paths"].items()
        for method in operations
        if method != "get"
    }


def test_every_route_and_form_that_changes_something_is_an_act(
    place: tuple[Scene, Client],
) -> None:
    _, client = place
    routes = {f"{one.method} {one.address}" for one in ACTS.values() if one.route}
    forms = {f"POST {one.path}" for one in ACTS.values() if one.path}
    assert _interface(client) | _pages() == routes | forms | set(NO_ACTS)


def test_every_command_is_an_act_or_has_no_other_door_or_only_reads() -> None:
    acts = {one.command for one in ACTS.values() if one.command}
    listed = [*acts, *ONLY_COMMANDS, *ONLY_READ]
    assert sorted(listed) == sorted(command_paths())


def test_what_a_door_has_alone_is_there() -> None:
    """A reason for a field that is gone would excuse the next one of that name."""
    for name, several in ALONE.items():
        for one in several:
            if one.door == "command line":
                found = set(command_offers(ACTS[name].command, ACTS[name].options))
                assert one.fields & found, f"{name}: {one.fields}"
