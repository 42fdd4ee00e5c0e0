"""``gatemark drift report``, ``metrics``, ``events`` and ``close``."""

from __future__ import annotations

from typing import Any

import click

from gatemark import __version__
from gatemark.cli.drift.probe import policy_options, workspace_at
from gatemark.cli.moments import now_option
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.canonical import json_file
from gatemark.core.errors import UsageError
from gatemark.drift.close import CloseRequest, close_episode
from gatemark.drift.open_stores import memories_of
from gatemark.drift.policy_file import drift_policy
from gatemark.drift.probe import evaluate
from gatemark.drift.view import drift_view
from gatemark.drift.views.evaluation_events import otlp_lines
from gatemark.report.outputs import check_extensions, write_documents
from gatemark.schedule.journey import list_schedules, read_plan


@click.command("report")
@click.argument("asset")
@click.option(
    "-o",
    "--output",
    multiple=True,
    required=True,
    metavar="FILE",
    help="What to write (.html, .json).",
)
@policy_options
@now_option
@store_option
def report_command(**flags: Any) -> None:
    """Write a page about the drift of one asset.

    Each watched metric with its values, the mean and the two bands that they are held against,
    its episodes, and what was done.

    \b
    Example:
      gatemark drift report support-triage -o drift.html
    """
    check_extensions(flags["output"], (".html", ".json"))
    workspace, now = workspace_at(flags)
    view = drift_view(workspace, drift_policy(flags["policy"], flags["mode"]), flags["asset"], now)

    def page() -> bytes:
        from gatemark.drift.views.page import render_drift  # noqa: PLC0415 - an extra

        return render_drift(view)

    write_documents(
        flags["output"],
        {
            ".html": page,
            ".json": lambda: json_file(view),
        },
    )
    for path in flags["output"]:
        click.echo(path)


@click.command("metrics")
@click.option("-o", "--output", multiple=True, metavar="FILE", help="Write a file (.prom).")
@policy_options
@now_option
@store_option
def metrics_command(**flags: Any) -> None:
    """Print every signal as Prometheus metrics.

    \b
    Examples:
      gatemark drift metrics
      gatemark drift metrics -o /var/lib/node_exporter/gatemark.prom
    """
    check_extensions(flags["output"], (".prom",))
    workspace, now = workspace_at(flags)
    found = evaluate(workspace, drift_policy(flags["policy"], flags["mode"]), now)
    lines = list_schedules(workspace, read_plan(None), now)
    overdue = [line.id for line in lines if line.is_overdue]
    try:
        from gatemark.drift.views.prometheus import metrics_text  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise UsageError(
            f"metrics need {error.name}, which is not installed: pip install 'gatemark[observe]'"
        ) from error
    probed_at = memories_of(workspace).last_tick().at
    text = metrics_text(found.signals, found.ticked.open, overdue, probed_at)
    write_documents(flags["output"], {".prom": lambda: text})
    if not flags["output"]:
        click.echo(text, nl=False)


@click.command("events")
@click.option("-o", "--output", multiple=True, metavar="FILE", help="Write a file (.jsonl).")
@policy_options
@now_option
@store_option
def events_command(**flags: Any) -> None:
    """Print every signal as an OpenTelemetry event gen_ai.evaluation.result.

    The lines are OTLP JSON, which collectors read from files.

    \b
    Example:
      gatemark drift events -o drift.otlp.jsonl
    """
    check_extensions(flags["output"], (".jsonl",))
    workspace, now = workspace_at(flags)
    found = evaluate(workspace, drift_policy(flags["policy"], flags["mode"]), now)
    data = b"".join(otlp_lines(found.signals, now, __version__))
    write_documents(flags["output"], {".jsonl": lambda: data})
    if not flags["output"]:
        click.echo(data, nl=False)


@click.command("close")
@click.argument("episode")
@click.option("--reason", required=True, help="Why this is normal now.")
@click.option(
    "--cite", metavar="RESULT", default=None, help="The fresh result that a breach needs."
)
@click.option("--actor", default=None, help="Who closes it; the user of this machine if left out.")
@now_option
@store_option
@json_option
def close_command(**flags: Any) -> None:
    """Close an episode and let its metric start a new baseline.

    A warning is closed by a reason, a breach by a result about the asset that passed after the
    breach showed. The asset stays in its stage; only a promotion brings it back.

    \b
    Example:
      gatemark drift close 3f2a9c01 --reason "new traffic mix since the spring sale"
    """
    workspace, now = workspace_at(flags)
    request = CloseRequest(
        episode=flags["episode"],
        actor=flags["actor"] or workspace.actor,
        reason=flags["reason"],
        cite=flags["cite"],
    )
    over = close_episode(workspace, request, now)
    if flags["json"]:
        print_json(over)
    else:
        click.echo(f"{over.asset} {over.metric}: {over.closed_because}")
