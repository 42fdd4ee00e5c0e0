"""How a route is declared: a view or an act, once each, for both the page and the HTTP API.

A module of ``server/views`` is about one thing that people see. It opens ``doors`` for it, and
reads from top to bottom: the documents and how they are made, then the views, then the acts::

    doors = Doors("runs", {"run": Path(pattern=r"^[0-9a-f]{16}$")})

    @doors.view("/runs/{run}", PageRun)
    def one_run(visit: Visit, run: str) -> PageRun:
        \"\"\"Return the state of a run.\"\"\"
        return visit.site.board.get(visit.workspace, run)

    @one_run.page("/runs/{run}", "run.html")
    def run_page(visit: Visit, document: PageRun) -> Context:
        \"\"\"Show a run and its progress.\"\"\"
        return {"title": f"Run of {document.pack}", "run": document}

    @doors.act("/runs", PageRun, command=RunStart, status=202, scope="run")
    def start(visit: Visit, command: RunStart) -> PageRun:
        \"\"\"Start a pack.\"\"\"
        return visit.site.board.start(visit.workspace, visit.identity, command)

    start.form("/runs", to="/runs/{id}", done="moved")

- ``view`` answers GET at ``/api/v1`` + the address with the document as JSON; its type is in
  OpenAPI. ``page`` shows the same document in a template; its function returns what the template
  needs besides, or a response of its own. A page that does not name ``document`` makes its own.
  ``doors.page`` declares a page without a document, such as an empty form.
- ``act`` answers POST there. ``command`` is the struct of the act: its fields are the JSON body,
  or the form; fields that the address names, and ``actor``, are filled in. ``form`` answers the
  form of a page by a redirect, and ``form_page`` by whatever its function returns.
- A view or an act whose document has an ETag returns ``Tagged``; a caller who has seen it gets 304.
- A function gets what it names: ``visit`` (who asks, and where), ``command``, ``document``, parts
  of the address, and for a view the fields of the query. An act that names ``tag`` gets the
  ``If-Match`` header, or the field ``tag`` of the form.
- The interface holds parts of the address to the patterns of the ``Doors``, and fields of a query
  to their annotations, since a program should learn at once what is wrong. A page looks up whatever
  was typed and answers in words.
- The interface needs ``scope`` of a token, or a session if the act is ``in_person``. Pages need a
  session. Both need a role, unless ``needs_role`` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from inspect import Parameter, Signature, signature
from string import Formatter
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_type_hints

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.params import Param
from fastapi.responses import RedirectResponse

from gatemark.core.errors import GatemarkError
from gatemark.core.request_fields import read_request
from gatemark.server.accounts.identity import Identity
from gatemark.server.accounts.nouns import Scope
from gatemark.server.idempotency import REPEATABLE, KeyedRoute
from gatemark.server.openapi import describe_answers, reply
from gatemark.server.render import Fields, back, member, one, page, part, person
from gatemark.server.request_body import JsonBody, describe_body, form_body
from gatemark.server.site import Site, caller, site_of
from gatemark.workspace import Workspace

Context = Mapping[str, object]
"""What a template needs."""
Function = TypeVar("Function", bound=Callable[..., Any])
FormFields = Mapping[str, list[str]]

_GIVEN: Final = frozenset({"visit", "document", "command", "tag"})
"""What functions may name that is no part of an address or a query."""


class Visit:
    """A request of somebody who is known, at one of the doors."""

    def __init__(
        self, request: Request, identity: Identity, fields: FormFields = MappingProxyType({})
    ) -> None:
        self.request = request
        self.identity = identity
        self.fields = fields
        """The fields of the form, if there is one."""

    @property
    def is_form(self) -> bool:
        """Whether it comes from a form of a page; that always has a field."""
        return bool(self.fields)

    @property
    def site(self) -> Site:
        """The state of the server."""
        return site_of(self.request)

    @property
    def workspace(self) -> Workspace:
        """The workspace of this thread."""
        return self.site.workspace

    @property
    def acting(self) -> Workspace:
        """The workspace, for what this person does in it."""
        return self.workspace.acting_as(self.identity.person)

    def show(self, template: str, context: Context, status: int = 200) -> Response:
        """Render a page."""
        return page(self.request, template, self.identity, context, status)


class Tagged(NamedTuple):
    """A document with its ETag; it is only made if the caller has no document with this tag."""

    tag: str
    make: Callable[[], object]


class Doors:
    """The addresses of one thing, on the pages and in the interface.

    ``parts`` are the patterns of parts of its addresses, which the interface holds them to.
    """

    def __init__(self, tag: str, parts: Mapping[str, Param] = MappingProxyType({})) -> None:
        self.pages = APIRouter()
        self.interface = APIRouter(tags=[tag], route_class=KeyedRoute)
        self.parts = parts

    def view(
        self,
        address: str,
        answers: object,
        *,
        scope: Scope = "read",
        in_person: bool = False,
        needs_role: bool = True,
    ) -> Callable[[Callable[..., Any]], View]:
        """Declare what the interface tells at an address."""

        def declare(function: Callable[..., Any]) -> View:
            def endpoint(request: Request, **given: Any) -> Response:
                identity = caller(request, scope, in_person=in_person, needs_role=needs_role)
                visit = Visit(request, identity)
                return _answer(request, _call(function, {**given, "visit": visit}))

            parameters = self._strict_parameters(address, function)
            self.interface.add_api_route(
                address,
                _sign(endpoint, function, parameters),
                methods=["GET"],
                responses=describe_answers(answers),
            )
            return View(self, function, needs_role=needs_role)

        return declare

    def act(
        self,
        address: str,
        answers: object,
        *,
        command: type[msgspec.Struct] | None = None,
        status: int = 200,
        scope: Scope = "act",
        in_person: bool = False,
        needs_role: bool = True,
        is_repeatable: bool = False,
        method: str = "POST",
        name: str | None = None,
        description: str | None = None,
    ) -> Callable[[Callable[..., Any]], Act]:
        """Declare what the interface does at an address.

        ``is_repeatable`` says that a repetition changes nothing and finishes the rest. Some
        commands say themselves that they are done in person.
        """
        must_be_there = in_person or getattr(command, "is_in_person", False)

        def declare(function: Callable[..., Any]) -> Act:
            declared = Act(self, function, command, needs_role=needs_role)

            def endpoint(request: Request, **given: Any) -> Response:
                identity = caller(request, scope, in_person=must_be_there, needs_role=needs_role)
                body = given.pop("body") if command is not None else {}
                done = _call(function, declared.read(Visit(request, identity), body, given))
                return _reply(done, status)

            parameters = self._strict_parameters(address, function)
            extra: dict[str, Any] = {**REPEATABLE} if is_repeatable else {}
            if command is not None:
                parameters.append(_parameter("body", JsonBody))
                extra |= describe_body(command, without=_parts_of(address))
            self.interface.add_api_route(
                address,
                _sign(endpoint, function, parameters),
                methods=[method],
                name=name,
                description=description,
                responses=describe_answers(answers, status),
                status_code=status,
                openapi_extra=extra or None,
            )
            return declared

        return declare

    def page(
        self, address: str, template: str = "", *, needs_role: bool = True
    ) -> Callable[[Function], Function]:
        """Declare a page without a document, such as an empty form."""

        def declare(function: Function) -> Function:
            self.add_page(address, template, function, needs_role=needs_role)
            return function

        return declare

    def add_page(
        self,
        address: str,
        template: str,
        function: Callable[..., Any],
        view: Callable[..., Any] | None = None,
        fixed: Mapping[str, object] = MappingProxyType({}),
        *,
        needs_role: bool,
    ) -> None:
        """Add a page, perhaps of a view; what is ``fixed`` is not asked in its address."""

        def endpoint(request: Request, **given: Any) -> Response:
            visit = Visit(request, member(request) if needs_role else person(request))
            known = {**given, **fixed, "visit": visit}
            if view is not None and "document" in _names_of(function):
                document = _call(view, known)
                known["document"] = document.make() if isinstance(document, Tagged) else document
            found = _call(function, known)
            return found if isinstance(found, Response) else visit.show(template, found)

        asked = _loose_parameters(function) | ({} if view is None else _loose_parameters(view))
        parts = {name: _parameter(name, str) for name in _parts_of(address)}
        parameters = [one for name, one in (parts | asked).items() if name not in fixed]
        self.pages.add_api_route(address, _sign(endpoint, function, parameters), methods=["GET"])

    def _strict_parameters(self, address: str, function: Callable[..., Any]) -> list[Parameter]:
        hints = get_type_hints(function, include_extras=True)
        parts = _parts_of(address)
        found = [_parameter(name, self._hint_of_part(name)) for name in parts]
        for name, known in signature(function).parameters.items():
            if name not in parts and (name not in _GIVEN or name == "tag"):
                found.append(_parameter(name, hints[name], known.default))
        return found

    def _hint_of_part(self, name: str) -> Any:
        return Annotated[str, self.parts[name]] if name in self.parts else str


class View:
    """A declared view; ``page`` shows its document."""

    def __init__(self, doors: Doors, make: Callable[..., Any], *, needs_role: bool) -> None:
        self._doors = doors
        self.make = make
        self._needs_role = needs_role

    def page(
        self, address: str, template: str = "", *, needs_role: bool | None = None, **fixed: object
    ) -> Callable[[Function], Function]:
        """Declare the page of the view; ``fixed`` are fields of the query that it does not ask."""

        def declare(function: Function) -> Function:
            needs = self._needs_role if needs_role is None else needs_role
            self._doors.add_page(address, template, function, self.make, fixed, needs_role=needs)
            return function

        return declare


class Act:
    """A declared act; ``form`` and ``form_page`` take it from a page."""

    def __init__(
        self,
        doors: Doors,
        do: Callable[..., Any],
        command: type[msgspec.Struct] | None,
        *,
        needs_role: bool,
    ) -> None:
        self._doors = doors
        self.do = do
        self._command = command
        self._needs_role = needs_role

    def read(
        self, visit: Visit, body: Mapping[str, object], address: Mapping[str, object]
    ) -> dict[str, object]:
        """Return what the act is told: its command, and what the address says."""
        known: dict[str, object] = {**address, "visit": visit}
        if self._command is not None:
            says = {**address, "actor": visit.identity.person}
            fields = {name: says[name] for name in self._command.__struct_fields__ if name in says}
            known["command"] = read_request(self._command, body, fields)
        return known

    def form(
        self,
        address: str,
        *,
        to: str,
        done: str | Callable[[Any], str] = "",
        read: Callable[[FormFields], Mapping[str, object]] | None = None,
    ) -> None:
        """Take the act from a form; go to a page after it, with the word for what was done.

        ``{}`` in ``to`` names parts of the address, or fields of the command or the document.
        ``done`` is a word of ``render.DONE``, or a function that says which, given the document.
        """
        names = [name for _, name, _, _ in Formatter().parse(to) if name]

        def go(known: Mapping[str, Any]) -> Response:
            places = {name: part(str(_find(known, name))) for name in names}
            target = to.format(**places)
            word = done if isinstance(done, str) else done(known["document"])
            return back(target, word) if word else RedirectResponse(target, status_code=303)

        self._add_form(address, go, read)

    def form_page(
        self,
        address: str,
        *,
        read: Callable[[FormFields], Mapping[str, object]] | None = None,
        refused: type[GatemarkError] | tuple[type[GatemarkError], ...] = (),
    ) -> Callable[[Function], Function]:
        """Take the act from a form, and answer with what the function returns.

        ``read`` returns the fields of the command, where the form asks in other words. An error
        of a class that is ``refused`` here comes to the function as ``error``.
        """

        def declare(function: Function) -> Function:
            self._add_form(address, partial(_call, function), read, refused)
            return function

        return declare

    def _add_form(
        self,
        address: str,
        answer: Callable[[Mapping[str, Any]], Response],
        read: Callable[[FormFields], Mapping[str, object]] | None,
        refused: type[GatemarkError] | tuple[type[GatemarkError], ...] = (),
    ) -> None:
        def endpoint(request: Request, fields: dict[str, list[str]], **given: Any) -> Response:
            identity = member(request) if self._needs_role else person(request)
            if "tag" in _names_of(self.do):
                given["tag"] = one(fields, "tag")
            visit = Visit(request, identity, fields)
            known: dict[str, object] = {"error": None}
            try:
                body: Mapping[str, object] = {}
                if self._command is not None:
                    body = read(fields) if read else form_body(self._command, fields)
                known |= self.read(visit, body, given)
                document = _call(self.do, known)
                known["document"] = document.make() if isinstance(document, Tagged) else document
            except refused as error:
                known |= {**given, "visit": visit, "document": None, "error": error}
            return answer(known)

        parameters = [_parameter(name, str) for name in _parts_of(address)]
        parameters.append(_parameter("fields", Fields))
        signed = _sign(endpoint, self.do, parameters)
        self._doors.pages.add_api_route(address, signed, methods=["POST"])


def _call(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """Call a function with what it names."""
    names = _names_of(function)
    return function(**{name: value for name, value in known.items() if name in names})


@cache
def _names_of(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(function).parameters)


def _find(known: Mapping[str, Any], name: str) -> object:
    if name in known:
        return known[name]
    command = known.get("command")
    return getattr(command if hasattr(command, name) else known["document"], name)


def _answer(request: Request, document: object) -> Response:
    if isinstance(document, Tagged) and request.headers.get("if-none-match") == document.tag:
        return Response(status_code=304, headers={"ETag": document.tag})
    return _reply(document)


def _reply(document: object, status: int = 200) -> Response:
    if isinstance(document, Response):
        return document
    if isinstance(document, Tagged):
        return reply(document.make(), status, ETag=document.tag)
    return reply(document, status)


def _parts_of(address: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(address) if name)


def _loose_parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a function without their limits."""
    hints = get_type_hints(function)
    return {
        name: _parameter(name, hints[name], known.default)
        for name, known in signature(function).parameters.items()
        if name not in _GIVEN
    }


def _parameter(name: str, hint: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _sign(
    endpoint: Callable[..., Response], function: Callable[..., Any], parameters: list[Parameter]
) -> Callable[..., Response]:
    """Give an endpoint the name of a function, and the parameters that the framework reads."""
    endpoint.__name__ = function.__name__
    endpoint.__doc__ = function.__doc__
    all_of_them = [_parameter("request", Request), *parameters]
    endpoint.__signature__ = Signature(all_of_them, return_annotation=Response)  # type: ignore[attr-defined]
    return endpoint
