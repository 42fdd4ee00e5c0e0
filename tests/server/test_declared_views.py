"""A view and an act are declared once: what both doors make of the declaration."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated

import msgspec
import pytest
from fastapi import Path, Query, Response
from httpx2 import Client
from msgspec import Meta
from tests.server.scene import Scene

from gatemark.core.errors import UnknownNameError
from gatemark.server.doors import Context, Doors, Tagged, Visit
from gatemark.server.parameters import Tag
from gatemark.server.problems import ProblemResponse

SIZES = {"oak": 30, "elm": 20}
Shown = Annotated[int, Query(ge=1, le=5)]


class Tree(msgspec.Struct, frozen=True):
    name: str
    size: int


class Plant(msgspec.Struct, frozen=True, kw_only=True):
    """A tree to plant."""

    tree: Annotated[str, Meta(max_length=8, description="Name of the tree.")]
    actor: str
    size: Annotated[int, Meta(ge=1, description="Its size.")] = 1


class Grown(msgspec.Struct, frozen=True):
    tree: str
    size: int
    by: str
    tag: str | None


def trees() -> Doors:
    doors = Doors("trees", {"tree": Path(pattern="^[a-z]+$")})

    @doors.view("/trees", tuple[str, ...])
    def all_trees(limit: Shown = 5) -> tuple[str, ...]:
        """List the trees."""
        return tuple(SIZES)[:limit]

    @all_trees.page("/trees", limit=1)
    def trees_page(document: tuple[str, ...], found: str = "") -> Response:
        return Response(f"{found}{document}")

    @doors.view("/trees/{tree}", Tree)
    def one_tree(tree: str) -> Tagged:
        """Return a tree."""
        if tree not in SIZES:
            raise UnknownNameError(f"there is no tree {tree}")
        return Tagged(f'"{SIZES[tree]}"', lambda: Tree(tree, SIZES[tree]))

    @one_tree.page("/trees/{tree}", "error.html")
    def tree_page(visit: Visit, document: Tree) -> Context:
        problem = ProblemResponse(HTTPStatus.OK, f"{document.name} for {visit.identity.person}")
        return {"title": document.name, "problem": problem}

    @doors.act("/trees/{tree}", Grown, command=Plant, status=201)
    def plant(command: Plant, tag: Tag = None) -> Grown:
        """Plant a tree."""
        return Grown(command.tree, command.size, command.actor, tag)

    plant.form("/trees/{tree}", to="/trees/{tree}", done="saved")
    plant.form("/new-tree", to="/trees/{size}")

    @doors.act("/trees/{tree}/felling", Tree, in_person=True)
    def fell(tree: str) -> Tree:
        """Fell a tree."""
        return Tree(tree, 0)

    @fell.form_page("/trees/{tree}/fell")
    def felled(visit: Visit, document: Tree) -> Response:
        return Response(f"{document.name} {visit.is_form}")

    return doors


@pytest.fixture
def woods(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    doors, usual = trees(), scene.app

    def app() -> object:
        made = usual()
        made.include_router(doors.pages, include_in_schema=False)
        made.include_router(doors.interface, prefix="/api/v1")
        return made

    monkeypatch.setattr(scene, "app", app)
    with scene.running() as client:
        yield client


def test_one_view_answers_as_json_and_as_a_page(scene: Scene, woods: Client) -> None:
    scene.session(woods, "ann")
    found = woods.get("/api/v1/trees/oak")
    assert (found.json(), found.headers["etag"]) == ({"name": "oak", "size": 30}, '"30"')
    page = woods.get("/trees/oak")
    assert (page.status_code, "oak for ann" in page.text) == (200, True)
    again = woods.get("/api/v1/trees/oak", headers={"If-None-Match": '"30"'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", '"30"')
    assert woods.get("/trees/oak", headers={"If-None-Match": '"30"'}).status_code == 200


def test_nobody_sees_it_who_is_not_signed_in(scene: Scene, woods: Client) -> None:
    assert woods.get("/api/v1/trees/oak").status_code == 401
    page = woods.get("/trees/oak")
    assert (page.status_code, page.headers["location"]) == (303, "/sign-in?to=/trees/oak")
    scene.session(woods, "newcomer")
    assert woods.get("/api/v1/trees/oak").status_code == 403
    assert woods.get("/trees/oak").status_code == 403


def test_the_interface_holds_to_limits_and_a_page_looks_it_up(scene: Scene, woods: Client) -> None:
    scene.session(woods, "ann")
    assert woods.get("/api/v1/trees/OAK").status_code == 422
    assert woods.get("/trees/OAK").status_code == 404
    assert woods.get("/api/v1/trees?limit=9").status_code == 422
    assert woods.get("/api/v1/trees?limit=2").json() == ["oak", "elm"]


def test_a_page_does_not_ask_for_what_is_fixed(scene: Scene, woods: Client) -> None:
    scene.session(woods, "ann")
    assert woods.get("/trees?limit=2&found=here: ").text == "here: ('oak',)"


def test_one_act_takes_a_body_or_a_form(scene: Scene, woods: Client) -> None:
    headers = scene.session(woods, "ann") | {"If-Match": '"3"'}
    done = woods.post("/api/v1/trees/ash", json={"size": 3}, headers=headers)
    assert (done.status_code, done.json()) == (
        201,
        {"tree": "ash", "size": 3, "by": "ann", "tag": '"3"'},
    )
    fields = {"form_mark": scene.mark(woods), "tag": '"3"', "size": "3"}
    sent = woods.post("/trees/ash", data=fields)
    assert (sent.status_code, sent.headers["location"]) == (303, "/trees/ash?done=saved")


def test_the_place_after_a_form_may_come_from_its_fields(scene: Scene, woods: Client) -> None:
    scene.session(woods, "ann")
    fields = {"form_mark": scene.mark(woods), "tree": "ash", "size": "7"}
    assert woods.post("/new-tree", data=fields).headers["location"] == "/trees/7"


@pytest.mark.parametrize("given", [{"size": 0}, {"height": 1}, {"actor": "bob"}, {"tree": "oak"}])
def test_both_doors_refuse_the_same(scene: Scene, woods: Client, given: dict[str, object]) -> None:
    headers = scene.session(woods, "ann")
    over_http = woods.post("/api/v1/trees/ash", json=given, headers=headers)
    fields = {name: str(one) for name, one in given.items()} | {"form_mark": scene.mark(woods)}
    on_the_page = woods.post("/trees/ash", data=fields)
    assert (over_http.status_code, on_the_page.status_code) == (422, 422)
    assert next(iter(given)) in over_http.json()["detail"]


def test_a_form_of_another_session_and_a_token_are_refused(scene: Scene, woods: Client) -> None:
    headers = scene.session(woods, "ann")
    wish = {"label": "ci", "scopes": ["read", "act"], "days": 2}
    secret = woods.post("/api/v1/tokens", json=wish, headers=headers).json()["secret"]
    assert woods.post("/trees/ash/fell", data={"form_mark": "of nobody"}).status_code == 403
    assert woods.post("/trees/ash/fell", data={"form_mark": scene.mark(woods)}).text == "ash True"
    woods.cookies.clear()
    bearer = {"Authorization": f"Bearer {secret}"}
    assert woods.post("/api/v1/trees/ash", json={"size": 2}, headers=bearer).status_code == 201
    refused = woods.post("/api/v1/trees/ash/felling", headers=bearer)
    assert (refused.status_code, "in person" in refused.text) == (403, True)


def test_the_document_of_the_interface_has_views_and_commands(scene: Scene, woods: Client) -> None:
    scene.session(woods, "ann")
    paths = woods.get("/api/v1/openapi.json").json()["paths"]
    body = paths["/api/v1/trees/{tree}"]["post"]["requestBody"]["content"]["application/json"]
    assert set(body["schema"]["properties"]) == {"size"}
    assert paths["/api/v1/trees/{tree}"]["get"]["responses"]["200"]["content"]
    assert not any("new-tree" in path or path.startswith("/trees") for path in paths)
