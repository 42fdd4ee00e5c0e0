"""``gatemark review labels``: labels of people for golden sets and judges."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.lifecycle.options import acting_workspace
from gatemark.cli.options import json_option, store_option
from gatemark.cli.review.vote import shown_text
from gatemark.cli.screen import print_json
from gatemark.core.errors import UsageError
from gatemark.report.outputs import write_text
from gatemark.report.words import number
from gatemark.review.labelling import LabelPlan
from gatemark.review.labels import (
    AcceptLabels,
    GiveLabel,
    accept_labels,
    accepted_rows,
    create_labels,
    give_label,
    label_status,
    next_sample,
)
from gatemark.workspace import Workspace

actor_option = click.option("--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who acts.")


@click.group("labels")
def labels() -> None:
    """Let people label samples, and accept what they agree on."""


@labels.command("create")
@click.argument("name")
@click.argument("samples")
@click.option("--label", "label", multiple=True, required=True, metavar="TEXT", help="Repeatable.")
@click.option("--source", required=True, metavar="TEXT", help="Where the samples are from.")
@click.option(
    "--field",
    type=click.Choice(["label", "target"]),
    default="label",
    show_default=True,
    help="label: rows for calibrating a judge. target: rows of a golden set.",
)
@click.option(
    "--labels-per-item",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many people label each sample.",
)
@click.option("--reviewer", multiple=True, metavar="NAME", help="Who may label; everybody if none.")
@actor_option
@store_option
@json_option
def create(**flags: Any) -> None:
    """Make a set of samples that wait for labels.

    \b
    Example:
      gatemark review labels create tone new.jsonl --label good --label bad --source "pilot, May"
    """
    fields = {
        "name": flags["name"],
        "labels": flags["label"],
        "source": flags["source"],
        "field": flags["field"],
        "labels_per_item": flags["labels_per_item"],
        "reviewers": flags["reviewer"],
    }
    try:
        plan = msgspec.convert(fields, LabelPlan)
    except msgspec.ValidationError as error:
        raise UsageError(f"labels {flags['name']}: {error}") from error
    count = create_labels(acting_workspace(flags, must_exist=False), plan, flags["samples"])
    if flags["json"]:
        print_json({"labels": plan.name, "items": count, "plan_digest": plan.digest})
    else:
        click.echo(f"labels {plan.name}: {count} samples, {', '.join(plan.labels)}")


@labels.command("next")
@click.argument("name")
@actor_option
@store_option
@json_option
def next_command(**flags: Any) -> None:
    """Show the next sample of a reviewer.

    \b
    Example:
      gatemark review labels next tone --actor bob
    """
    workspace = acting_workspace(flags)
    item = next_sample(workspace, flags["name"], workspace.actor)
    if flags["json"]:
        print_json(item)
    elif item is None:
        click.echo("nothing left to label")
    else:
        click.echo(f"{item.id}\n--- input\n{shown_text(item.input)}")
        click.echo(f"--- output\n{shown_text(item.output)}")


@labels.command("give")
@click.argument("name")
@click.argument("item")
@click.argument("label")
@click.option("--note", default="", metavar="TEXT", help="Why.")
@actor_option
@store_option
@json_option
def give(**flags: Any) -> None:
    """Give a sample a label; every version is kept.

    \b
    Example:
      gatemark review labels give tone q7 good --actor bob
    """
    workspace = acting_workspace(flags)
    request = GiveLabel(
        labels=flags["name"],
        reviewer=workspace.actor,
        item=flags["item"],
        label=flags["label"],
        note=flags["note"],
    )
    version = give_label(workspace, request)
    if flags["json"]:
        print_json({"item": request.item, "label": request.label, "version": version})
    else:
        click.echo(f"kept: {request.item} is {request.label} (version {version})")


@labels.command("status")
@click.argument("name")
@store_option
@json_option
def status(**flags: Any) -> None:
    """Tell how far a label set is and what is open.

    \b
    Example:
      gatemark review labels status tone
    """
    workspace = Workspace(store=flags["store"])
    workspace.existing_store()
    found = label_status(workspace, flags["name"])
    if flags["json"]:
        print_json(found)
        return
    click.echo(
        f"labels {found.labels}: {found.items} samples, {found.marks} labels, "
        f"{found.agreed} agreed, {found.accepted} accepted"
    )
    for measurement in found.agreement:
        shown = measurement.reason if measurement.value is None else number(measurement.value)
        click.echo(f"{measurement.name:<20}{shown} (n={measurement.n})")
    for item, reason in found.open.items():
        click.echo(f"  {item}: {reason}")


@labels.command("accept")
@click.argument("name")
@click.option(
    "--choose",
    multiple=True,
    metavar="ITEM=LABEL",
    help="Settle a sample that reviewers disagree on. Repeatable.",
)
@actor_option
@store_option
@json_option
def accept(**flags: Any) -> None:
    """Accept agreed labels; only a pack_owner may.

    Nobody accepts a label that only they gave. The ledger keeps the digest of the data set that
    comes of it.

    \b
    Example:
      gatemark review labels accept tone --choose q9=bad --actor olga
    """
    chosen = dict(_choice(text) for text in flags["choose"])
    found = accept_labels(
        acting_workspace(flags), AcceptLabels(labels=flags["name"], chosen=chosen)
    )
    if flags["json"]:
        print_json(found)
        return
    click.echo(f"accepted {found.accepted_count}, {found.in_all_count} in all")
    for item, reason in found.open.items():
        click.echo(f"  {item}: {reason}")


@labels.command("export")
@click.argument("name")
@click.option("-o", "--output", metavar="FILE", help="Where to; standard output when left out.")
@store_option
def export(**flags: Any) -> None:
    """Write accepted labels as a data set that packs can name.

    \b
    Example:
      gatemark review labels export tone -o labels.jsonl
    """
    workspace = Workspace(store=flags["store"])
    workspace.existing_store()
    rows = accepted_rows(workspace, flags["name"])
    if flags["output"] is None:
        click.echo(rows, nl=False)
    else:
        write_text(flags["output"], rows.decode())


def _choice(text: str) -> tuple[str, str]:
    item, found, label = text.rpartition("=")
    if not found:
        raise UsageError(f"--choose takes ITEM=LABEL, got {text!r}")
    return item, label
