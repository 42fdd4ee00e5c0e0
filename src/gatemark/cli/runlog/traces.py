"""``gatemark runlog traces``: traces to try things on."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.options import json_option
from gatemark.cli.runlog.options import processes_option
from gatemark.cli.screen import count_progress, print_json
from gatemark.core.errors import UsageError
from gatemark.exams.runlog.make_traces import (
    CaseChoice,
    TracesRequest,
    make_traces,
    read_case_choice,
    read_case_list,
    read_synthetic_settings,
)
from gatemark.workspace import Workspace


@click.command("traces")
@click.option("--output", default="data/traces", show_default=True, help="Folder for the traces.")
@click.option(
    "--manifests",
    default="data/manifests",
    show_default=True,
    help="Folder for the case list and the manifest.",
)
@click.option("--config", metavar="FILE", help="Settings of the generator (YAML or JSON).")
@click.option("--cases", type=click.IntRange(1), help="How many cases to invent.")
@click.option("--seed", type=int, help="What the invention depends on.")
@click.option(
    "--domain",
    "domains",
    multiple=True,
    type=click.Choice(["clinical", "incident", "workshop"]),
    help="What the agents talk about; all of them in turn when left out. Repeatable.",
)
@click.option(
    "--dataset-config",
    metavar="FILE",
    help="Which cases: mode (all, list, fixed_subset), cases, count, seed (YAML or JSON).",
)
@click.option("--case-list", metavar="FILE", help="Only the cases on this list.")
@click.option("--subset", type=click.IntRange(1), help="A seeded sample of this many cases.")
@click.option(
    "--subset-seed", type=int, default=42, show_default=True, help="What the sample depends on."
)
@click.option("--limit", type=click.IntRange(1), help="Only the first cases of the choice.")
@click.option(
    "--stub",
    "--stub-mode",
    "stub",
    is_flag=True,
    help="Traces that stand in for missing ones, marked so.",
)
@click.option("--dry-run", is_flag=True, help="Write the case list and nothing else.")
@click.option("--created-at", metavar="TIME", help="What the manifest says about when.")
@processes_option
@json_option
def traces_command(**flags: Any) -> None:
    """Make synthetic multi-agent traces and the manifest that pins them.

    The same settings and seed give the same bytes, however many processes write them.

    \b
    Examples:
      gatemark runlog traces --cases 12 --seed 7
      gatemark runlog traces --cases 300 --subset 40 --output traces --manifests manifests
      gatemark runlog traces --stub --dry-run
    """
    settings = read_synthetic_settings(
        flags["config"],
        cases=flags["cases"],
        seed=flags["seed"],
        domains=flags["domains"] or None,
    )
    given = [name for name in ("case_list", "subset", "dataset_config") if flags[name]]
    if len(given) > 1:
        raise UsageError("--case-list, --subset and --dataset-config exclude each other")
    configs = tuple(path for path in (flags["config"], flags["dataset_config"]) if path)
    request = TracesRequest(
        output=flags["output"],
        manifests=flags["manifests"],
        settings=settings,
        config_files=configs,
        is_overruled=any(flags[name] not in (None, ()) for name in ("cases", "seed", "domains")),
        choice=_choice(flags),
        limit=flags["limit"],
        stub=flags["stub"],
        dry_run=flags["dry_run"],
        created_at=flags["created_at"],
    )
    with count_progress("traces") as progress:
        made = make_traces(Workspace(jobs=flags["jobs"]).engine, request, progress)
    if flags["json"]:
        print_json(msgspec.to_builtins(made))
        return
    click.echo(f"case list: {made.case_list} ({made.cases} cases)")
    if made.manifest is not None:
        click.echo(f"traces:    {flags['output']} ({made.deltas} deltas, {made.turns} turns)")
        click.echo(f"manifest:  {made.manifest}")
        click.echo(f"data set:  {made.trace_dataset_hash}")


def _choice(flags: dict[str, Any]) -> CaseChoice:
    if flags["case_list"]:
        return CaseChoice(mode="list", cases=read_case_list(flags["case_list"]))
    if flags["subset"]:
        return CaseChoice(mode="fixed_subset", count=flags["subset"], seed=flags["subset_seed"])
    return read_case_choice(flags["dataset_config"])
