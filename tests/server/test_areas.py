"""Everything the page does the interface does: page forms and commands held against /api/v1."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from fastapi.routing import APIRoute
from tests.server.scene import Scene

from gatemark.release.lifecycle.decisions.decide import DECISIONS
from gatemark.release.lifecycle.events.fact import DECLARED_ACTS
from gatemark.server.app import THINGS

API = "/api/v1"
VERSION = "/assets/{asset}/versions/{version}"
MOVES = {
    "approve": f"POST {VERSION}/votes",
    "promote": f"POST {VERSION}/promotion",
    "demote": "POST /assets/{asset}/demotion",
    "rollback": "POST /assets/{asset}/rollback",
    "pause": f"POST {VERSION}/pause",
    "resume": f"POST {VERSION}/resumption",
    "confirm-break-glass": f"POST {VERSION}/break-glass-review",
    "waive": f"POST {VERSION}/waiver",
}
LOOKS = {
    "/": "/overview",
    "/approvals": "/steps",
    "/approvals/{asset}/{version}": "/steps",
    "/assets/{asset}": "/assets/{asset}",
    "/assets/{asset}/history": "/assets/{asset}/history",
    "/assets/{asset}/drift": "/assets/{asset}/drift",
    "/assets/{asset}/versions/{version}": VERSION,
    "/attributions": "/attributions",
    "/attributions/{attribution}": "/attributions/{attribution}",
    "/attributions/{attribution}/items": "/attributions/{attribution}/items",
    "/compare": "/comparison",
    "/labels": "/labels",
    "/labels/{labels}": "/labels/{labels}",
    "/labels/{labels}/dataset": "/labels/{labels}/dataset",
    "/labels/{labels}/items": "/labels/{labels}/items",
    "/ledger": "/ledger/events",
    "/people": "/people",
    "/results": "/results",
    "/review-queue": "/review-queue",
    "/results/{reference}": "/results/{reference}",
    "/results/{reference}/files/{digest}": "/results/{reference}/files/{digest}",
    "/reviews": "/reviews",
    "/reviews/{review}": "/reviews/{review}",
    "/runs": "/runs",
    "/runs/{run}": "/runs/{run}",
    "/runs/{run}/steps": "/runs/{run}/steps",
    "/schedules": "/schedules",
    "/tokens": "/tokens",
}
NO_LOOK = {
    "/sign-in",
    "/sign-in/oidc",
    "/sign-in/oidc/callback",
    "/join/{secret}",
    "/new-labels",
    "/new-review",
    "/new-version",
}
"""Doors and empty forms: they show nothing of the store."""
COMMANDS = {
    "AddVersion": f"POST {VERSION}",
    "AdoptPolicy": "POST /policy",
    "Approve": f"POST {VERSION}/votes",
    "Demote": MOVES["demote"],
    "GrantRoles": "PUT /people/{person}/roles",
    "PauseVersion": MOVES["pause"],
    "Promote": MOVES["promote"],
    "PushShadow": f"POST {VERSION}/shadow",
    "PushWindow": "POST /assets/{asset}/canary/windows",
    "ReportService": "POST /assets/{asset}/service-reports",
    "ResumeVersion": MOVES["resume"],
    "ReviewBreakGlass": MOVES["confirm-break-glass"],
    "RollBack": MOVES["rollback"],
    "SetRequiredPack": "POST /assets/{asset}/required-pack",
    "Tick": "POST /assets/{asset}/canary/due",
    "Waive": MOVES["waive"],
}


@pytest.fixture
def pages() -> set[tuple[str, str]]:
    found = [route for thing in THINGS for route in thing.doors.pages.routes]
    return {
        (method, route.path)
        for route in found
        if isinstance(route, APIRoute)
        for method in route.methods
    }


@pytest.fixture
def interface(scene: Scene) -> set[str]:
    paths = scene.app().openapi()["paths"]
    return {
        f"{method.upper()} {path.removeprefix(API)}" for path in paths for method in paths[path]
    }


def test_what_a_page_shows_the_interface_tells(
    pages: set[tuple[str, str]], interface: set[str]
) -> None:
    assert {path for method, path in pages if method == "GET"} == set(LOOKS) | NO_LOOK
    assert {f"GET {path}" for path in LOOKS.values()} <= interface
    assert {method for method, _ in pages} == {"GET", "POST"}


def test_every_command_of_the_lifecycle_has_a_route(interface: set[str]) -> None:
    # Every command that is decided, so that a new one is noticed wherever it is declared.
    assert {command.__name__ for command in (*DECISIONS, *DECLARED_ACTS)} == set(COMMANDS)
    assert set(COMMANDS.values()) <= interface


def test_every_form_in_a_template_leads_to_a_page_that_takes_it(
    pages: set[tuple[str, str]],
) -> None:
    taken = [
        re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + r"\Z")
        for method, path in pages
        if method == "POST"
    ]
    found = 0
    for template in (files("gatemark.server") / "templates").iterdir():
        text = template.read_text(encoding="utf-8")
        for action in re.findall(r'method="post" action="([^"]+)"', text):
            found += 1
            plain = re.sub(r"\{\{[^}]*\}\}", "x", action).partition("#")[0]
            assert any(one.match(plain) for one in taken), (template.name, action)
    assert found >= 20
