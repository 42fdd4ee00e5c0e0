"""API routes for human labels: sets, the next sample, versions, and acceptance."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StringConstraints

from gatemark.review.labels import Accepted, read_accepted_rows
from gatemark.web.api.accounts import Body
from gatemark.web.api.reviews import After, ArmName, Limit, PersonName, ReviewPath
from gatemark.web.areas.labels import (
    GivenLabel,
    LabelCard,
    LabelList,
    LabelPage,
    LabelQueueView,
    LabelsMade,
    LaneQueue,
    accept_in_person,
    label,
    label_card,
    label_list,
    label_queue_view,
    label_rows,
    lane_queue,
    make_labels,
)
from gatemark.web.idempotency import REPEATABLE, KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.parameters import Note
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["labels"], route_class=KeyedRoute)
Label = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")
]
ItemId = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class LabelSetBody(Body):
    """A label set over lines of gatemark.sample/1."""

    name: ArmName
    labels: list[Label] = Field(min_length=2, max_length=256)
    source: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    field: Literal["label", "target"] = "label"
    labels_per_item: int = Field(default=1, ge=1, le=100)
    reviewers: list[PersonName] = Field(default=[], max_length=100)
    question: Annotated[Note, StringConstraints(min_length=1)] = "Which label fits?"
    samples: str


class MarkBody(Body):
    """A label for an item, by the person who is signed in."""

    item: ItemId
    label: Label
    note: Note = ""


class AcceptanceBody(Body):
    """Labels for items without a majority; labels with a majority are accepted anyway."""

    chosen: dict[ItemId, Label] = Field(default={}, max_length=1000)


@router.get("/labels", responses=describe_answers(LabelList))
def list_labels(request: Request, after: After = None, limit: Limit = 50) -> Response:
    """List label sets, newest first, with what waits for the caller."""
    identity = caller(request)
    return reply(label_list(site_of(request).workspace, identity, after=after, limit=limit))


@router.post("/labels", responses=describe_answers(LabelsMade, 201), status_code=201)
def post_labels(request: Request, body: LabelSetBody) -> Response:
    """Create a label set."""
    identity = caller(request, "act")
    plain = body.model_dump()
    samples = plain.pop("samples")
    return reply(make_labels(site_of(request).workspace, identity, plain, samples), 201)


@router.get("/review-queue", responses=describe_answers(LaneQueue))
def get_queue(request: Request, limit: Limit = 50) -> Response:
    """List inputs of advisory lanes that wait for people, by lane."""
    identity = caller(request)
    return reply(lane_queue(site_of(request).workspace, identity, limit))


@router.get("/labels/{name}", responses=describe_answers(LabelCard))
def one_label_set(request: Request, name: ReviewPath) -> Response:
    """Return the progress of a label set."""
    identity = caller(request)
    return reply(label_card(site_of(request).workspace, identity, name))


@router.get("/labels/{name}/next", responses=describe_answers(LabelQueueView))
def get_next_item(request: Request, name: ReviewPath) -> Response:
    """Return the caller's next sample; null at the end."""
    identity = caller(request, in_person=True)
    return reply(label_queue_view(site_of(request).workspace, identity, name))


@router.post(
    "/labels/{name}/marks", responses=describe_answers(GivenLabel), openapi_extra=REPEATABLE
)
def post_mark(request: Request, name: ReviewPath, body: MarkBody) -> Response:
    """Give a label; every version is kept. Needs a session."""
    identity = caller(request, "act", in_person=True)
    said = (body.label, body.note)
    return reply(label(site_of(request).workspace, identity, name, body.item, said))


@router.get("/labels/{name}/items", responses=describe_answers(LabelPage))
def list_items(
    request: Request,
    name: ReviewPath,
    after: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Limit = 50,
) -> Response:
    """List items with their labels: owners see everyone's, others their own."""
    identity = caller(request)
    return reply(label_rows(site_of(request).workspace, identity, name, after=after, limit=limit))


@router.post("/labels/{name}/acceptance", responses=describe_answers(Accepted))
def post_acceptance(request: Request, name: ReviewPath, body: AcceptanceBody) -> Response:
    """Accept the labels with a majority, and chosen ones. For pack owners; needs a session."""
    identity = caller(request, "act", in_person=True)
    return reply(accept_in_person(site_of(request).workspace, identity, name, body.chosen))


@router.get("/labels/{name}/dataset", responses=describe_answers(bytes))
def get_dataset(request: Request, name: ReviewPath) -> Response:
    """Return the accepted labels as a data set; its digest is in the ledger."""
    caller(request)
    rows = read_accepted_rows(site_of(request).workspace, name)
    return Response(rows, media_type="application/x-ndjson")
