"""``gatemark review labels``: people label samples for golden sets and judges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from gatemark.cli.options import StrictGroup, json_option, store_option
from gatemark.cli.screen import put, show
from gatemark.cli.struct_options import given_group, read_given
from gatemark.release.cli.options import Caller, caller_options
from gatemark.release.cli.review.vote import shown_text
from gatemark.release.review.labelling import LabelItem, LabelPlan
from gatemark.release.review.labels import (
    Accepted,
    AcceptLabels,
    GiveLabel,
    LabelStatus,
    accept_labels,
    create_labels,
    give_label,
    label_status,
    next_sample,
    read_accepted_rows,
)
from gatemark.report.outputs import write_text
from gatemark.report.words import number
from gatemark.workspace import Workspace


@click.group("labels", cls=StrictGroup)
def labels() -> None:
    """Collect labels of samples from people, and accept what they agree on."""


plan_options = given_group(LabelPlan, without=("name",))


@labels.command("create")
@click.argument("name")
@click.argument("samples")
@caller_options
@plan_options
def create_labels_command(
    given: dict[str, object], caller: Caller, *, name: str, samples: str
) -> None:
    """Create a set of samples to label.

    \b
    Example:
      gatemark review labels create tone new.jsonl --label good --label bad --source "pilot, May"
    """
    plan = read_given(LabelPlan, {"name": name, **given}, arguments=("name",))
    count = create_labels(caller.workspace(must_exist=False), plan, samples)
    show(
        {"labels": plan.name, "items": count, "plan_digest": plan.digest},
        lambda _: f"labels {plan.name}: {count} samples, {', '.join(plan.labels)}",
        json=caller.json,
    )


@labels.command("next")
@click.argument("name")
@caller_options
def next_label_command(caller: Caller, *, name: str) -> None:
    """Show the next sample of a reviewer.

    \b
    Example:
      gatemark review labels next tone --actor bob
    """
    workspace = caller.workspace()
    show(next_sample(workspace, name, workspace.actor), _sample_lines, json=caller.json)


def _sample_lines(item: LabelItem | None) -> Iterator[str]:
    if item is None:
        yield "nothing left to label"
    else:
        yield f"{item.id}\n--- input\n{shown_text(item.input)}"
        yield f"--- output\n{shown_text(item.output)}"


GIVEN: Final = ("item", "label")
label_options = given_group(GiveLabel, arguments=GIVEN)


@labels.command("give")
@click.argument("name")
@label_options
@caller_options
def give(caller: Caller, given: dict[str, object], *, name: str) -> None:
    """Label a sample; every version is stored.

    \b
    Example:
      gatemark review labels give tone q7 good --actor bob
    """
    workspace = caller.workspace()
    known = {"labels": name, "actor": workspace.actor}
    request = read_given(GiveLabel, given, known, arguments=GIVEN)
    version = give_label(workspace, request)
    show(
        {"item": request.item, "label": request.label, "version": version},
        lambda _: f"kept: {request.item} is {request.label} (version {version})",
        json=caller.json,
    )


@labels.command("status")
@click.argument("name")
@store_option
@json_option
def labels_status_command(*, name: str, store: str, json: bool) -> None:
    """Show the progress of a label set and what is open.

    \b
    Example:
      gatemark review labels status tone
    """
    workspace = Workspace(store=store)
    workspace.existing_store()
    show(label_status(workspace, name), _format_status, json=json)


def _format_status(found: LabelStatus) -> Iterator[str]:
    yield (
        f"labels {found.labels}: {found.items} samples, {found.marks} labels, "
        f"{found.agreed} agreed, {found.accepted} accepted"
    )
    for measurement in found.agreement:
        value = measurement.reason if measurement.value is None else number(measurement.value)
        yield f"{measurement.name:<20}{value} (n={measurement.n})"
    for item, reason in found.open.items():
        yield f"  {item}: {reason}"


accept_options = given_group(AcceptLabels)


@labels.command("accept")
@click.argument("name")
@accept_options
@caller_options
def accept_labels_command(caller: Caller, given: dict[str, object], *, name: str) -> None:
    """Accept agreed labels. Only a pack_owner can do this.

    Nobody can accept a label that only they gave. The ledger stores the digest of the data set.

    \b
    Example:
      gatemark review labels accept tone --choose q9=bad --actor olga
    """
    request = read_given(AcceptLabels, given, {"labels": name})
    found = accept_labels(caller.workspace(), request)
    show(found, _format_accepted, json=caller.json)


def _format_accepted(found: Accepted) -> Iterator[str]:
    yield f"accepted {found.accepted_count}, {found.in_all_count} in all"
    for item, reason in found.open.items():
        yield f"  {item}: {reason}"


@labels.command("export")
@click.argument("name")
@click.option("-o", "--output", metavar="FILE", help="File to write (default: standard output).")
@store_option
def export_labels_command(*, name: str, output: str | None, store: str) -> None:
    """Write accepted labels as a data set that packs can name.

    \b
    Example:
      gatemark review labels export tone -o labels.jsonl
    """
    workspace = Workspace(store=store)
    workspace.existing_store()
    rows = read_accepted_rows(workspace, name)
    if output is None:
        put(rows)
    else:
        write_text(output, rows.decode())
