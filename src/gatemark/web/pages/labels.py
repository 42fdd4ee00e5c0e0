"""Pages for human labels: the next sample, versions, and acceptance."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from gatemark.accounts.identity import Identity
from gatemark.review.labelling import LabelPlan
from gatemark.review.labels import read_accepted_rows
from gatemark.web.areas.labels import (
    accept_in_person,
    label,
    label_card,
    label_list,
    label_queue_view,
    label_rows,
    lane_queue,
    make_labels,
)
from gatemark.web.render import (
    Fields,
    back,
    limited,
    member,
    names_in,
    one,
    page,
    part,
    read_whole_number,
    show_content,
)
from gatemark.web.request_body import form_limits
from gatemark.web.run_board import RUNNERS
from gatemark.web.site import site_of

router = APIRouter()
SHOWN: Final = 50
QUEUED: Final = 200
CHOICE: Final = "choose:"
EXCERPT: Final = 300


@router.get("/labels")
def labels_page(request: Request, after: str | None = None) -> Response:
    """Show every label set, and what waits for the caller."""
    identity = member(request)
    context = {
        "title": "Labels",
        "view": label_list(site_of(request).workspace, identity, after=after, limit=SHOWN),
        "may_make": bool(RUNNERS & set(identity.roles)),
    }
    return page(request, "labels.html", identity, context)


@router.get("/review-queue")
def queue_page(request: Request) -> Response:
    """Show the inputs of advisory lanes that wait for people, by lane."""
    identity = member(request)
    view = lane_queue(site_of(request).workspace, identity, QUEUED)
    context = {"title": "Review queue", "view": view}
    return page(request, "review_queue.html", identity, context)


@router.get("/new-labels")
def new_labels_page(request: Request) -> Response:
    """Show the form for a label set."""
    identity = member(request)
    return page(
        request,
        "new_labels.html",
        identity,
        {"title": "New label set", "plan": form_limits(LabelPlan)},
    )


@router.post("/new-labels")
def new_labels_post(request: Request, fields: Fields) -> Response:
    """Create a label set from a text of samples."""
    identity = member(request)
    plain: dict[str, object] = {**limited(fields, "name", "source", "field", "question")}
    plain["labels"] = [line.strip() for line in one(fields, "labels").splitlines() if line.strip()]
    plain["reviewers"] = names_in(one(fields, "reviewers"))
    plain["labels_per_item"] = read_whole_number(fields, "labels_per_item", 1)
    made = make_labels(site_of(request).workspace, identity, plain, one(fields, "samples"))
    return back(f"/labels/{part(made.labels)}", "saved")


@router.get("/labels/{name}")
def label_page(request: Request, name: str) -> Response:
    """Show the next sample, or the progress of the set."""
    identity = member(request)
    workspace = site_of(request).workspace
    card = label_card(workspace, identity, name)
    found = None if card.line.why_not else label_queue_view(workspace, identity, name)
    item = None if found is None else found.item
    context = {
        "title": f"Labels {name}",
        "card": card,
        "item": item,
        "texts": None if item is None else (show_content(item.input), show_content(item.output)),
    }
    return page(request, "label.html", identity, context)


@router.post("/labels/{name}")
def label_post(request: Request, name: str, fields: Fields) -> Response:
    """Store a label and show the next sample."""
    identity = member(request)
    said = (one(fields, "label"), one(fields, "note"))
    label(site_of(request).workspace, identity, name, fields.get("item", [""])[0], said)
    return RedirectResponse(f"/labels/{part(name)}", status_code=303)


@router.get("/labels/{name}/items")
def items_page(request: Request, name: str, after: int = 0) -> Response:
    """Show items and the versions of their labels; owners accept here."""
    return _show_items(request, member(request), name, after=max(0, after))


def _show_items(
    request: Request,
    identity: Identity,
    name: str,
    *,
    after: int = 0,
    waiting: dict[str, str] | None = None,
) -> Response:
    workspace = site_of(request).workspace
    rows = label_rows(workspace, identity, name, after=after, limit=SHOWN)
    context = {
        "title": f"Labels {name}",
        "card": label_card(workspace, identity, name),
        "view": rows,
        "texts": {
            row.number: (show_content(row.input)[:EXCERPT], show_content(row.output)[:EXCERPT])
            for row in rows.items
        },
        "choice": CHOICE,
        "waiting": list((waiting or {}).items())[:SHOWN],
    }
    return page(request, "label_items.html", identity, context)


@router.post("/labels/{name}/items")
def accept_post(request: Request, name: str, fields: Fields) -> Response:
    """Accept the labels with a majority, and chosen ones; show why if there were none."""
    identity = member(request)
    chosen = {
        field.removeprefix(CHOICE): values[0]
        for field, values in fields.items()
        if field.startswith(CHOICE) and values[0]
    }
    found = accept_in_person(site_of(request).workspace, identity, name, chosen)
    if found.open and not found.accepted_count:
        return _show_items(request, identity, name, waiting=found.open)
    done = "accepted" if found.accepted_count else "nothing"
    return back(f"/labels/{part(name)}/items", done)


@router.get("/labels/{name}/dataset")
def dataset(request: Request, name: str) -> Response:
    """Return the accepted labels as a file."""
    member(request)
    rows = read_accepted_rows(site_of(request).workspace, name)
    headers = {"Content-Disposition": f'attachment; filename="{part(name)}.jsonl"'}
    return Response(rows, media_type="application/x-ndjson", headers=headers)
