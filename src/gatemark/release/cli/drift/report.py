"""``gatemark drift report``, ``metrics``, ``events`` and ``close``."""

from __future__ import annotations

import click

from gatemark import __version__
from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import optional_import, put, say, show
from gatemark.cli.struct_options import given_group, read_given
from gatemark.core.canonical import json_file
from gatemark.release.cli.drift.probe import policy_options, workspace_options
from gatemark.release.drift.close import CloseRequest, close_episode
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.open_stores import episodes_of
from gatemark.release.drift.probe import evaluate
from gatemark.release.drift.view import drift_view
from gatemark.release.drift.views.evaluation_events import otlp_lines
from gatemark.release.drift.views.views import DriftView
from gatemark.release.schedule.list_schedules import list_schedules
from gatemark.release.schedule.plan_file import read_schedules
from gatemark.report.outputs import check_extensions, write_documents
from gatemark.workspace import Workspace


@click.command("report", cls=StrictCommand)
@click.argument("asset")
@click.option(
    "-o",
    "--output",
    multiple=True,
    required=True,
    metavar="FILE",
    help="File to write (.html, .json). Repeatable.",
)
@policy_options
@workspace_options
def report_command(
    workspace: Workspace, policy: DriftPolicy, *, asset: str, output: tuple[str, ...]
) -> None:
    """Write a page about the drift of one asset.

    Shows each watched metric with its values, mean and two bands, its episodes and actions.

    \b
    Example:
      gatemark drift report support-triage -o drift.html
    """
    check_extensions(output, (".html", ".json"))
    view = drift_view(workspace, policy, asset, workspace.clock())
    write_documents(output, {".html": lambda: _render_page(view), ".json": lambda: json_file(view)})
    for path in output:
        say(path)


def _render_page(view: DriftView) -> bytes:
    with optional_import("report"):
        from gatemark.release.drift.views.page import render_drift  # noqa: PLC0415 - an extra
    return render_drift(view)


@click.command("metrics", cls=StrictCommand)
@click.option("-o", "--output", multiple=True, metavar="FILE", help="File to write (.prom).")
@policy_options
@workspace_options
def metrics_command(workspace: Workspace, policy: DriftPolicy, *, output: tuple[str, ...]) -> None:
    """Print every signal as Prometheus metrics.

    \b
    Examples:
      gatemark drift metrics
      gatemark drift metrics -o /var/lib/node_exporter/gatemark.prom
    """
    check_extensions(output, (".prom",))
    with optional_import("observe", "metrics need"):
        from gatemark.release.drift.views.prometheus import metrics_text  # noqa: PLC0415 - an extra
    now = workspace.clock()
    found = evaluate(workspace, policy, now)
    lines = list_schedules(workspace, read_schedules(None), now)
    overdue = [line.id for line in lines if line.is_overdue]
    probed_at = episodes_of(workspace).last_tick().at
    text = metrics_text(found.by_metric(), found.ticked.open, overdue, probed_at)
    write_documents(output, {".prom": lambda: text})
    if not output:
        put(text)


@click.command("events", cls=StrictCommand)
@click.option("-o", "--output", multiple=True, metavar="FILE", help="File to write (.jsonl).")
@policy_options
@workspace_options
def events_command(workspace: Workspace, policy: DriftPolicy, *, output: tuple[str, ...]) -> None:
    """Print every signal as an OpenTelemetry event gen_ai.evaluation.result.

    The lines are OTLP JSON, which collectors read from files.

    \b
    Example:
      gatemark drift events -o drift.otlp.jsonl
    """
    check_extensions(output, (".jsonl",))
    now = workspace.clock()
    found = evaluate(workspace, policy, now)
    data = b"".join(otlp_lines(found.by_metric(), now, __version__))
    write_documents(output, {".jsonl": lambda: data})
    if not output:
        put(data)


closing_options = given_group(CloseRequest)


@click.command("close", cls=StrictCommand)
@click.argument("episode")
@closing_options
@click.option("--actor", help="Name of the person who closes it (default: the login name).")
@workspace_options
@json_option
def close_command(
    workspace: Workspace,
    given: dict[str, object],
    *,
    episode: str,
    actor: str | None,
    json: bool,
) -> None:
    """Close an episode and start a new baseline for its metric.

    A reason closes a warning; a breach needs a result about the asset that passed after it began.
    The asset stays in its stage; only a promotion brings it back.

    \b
    Example:
      gatemark drift close 3f2a9c01 --reason "new traffic mix since the spring sale"
    """
    known = {"episode": episode, "actor": actor or workspace.actor}
    request = read_given(CloseRequest, given, known)
    closed = close_episode(workspace, request, workspace.clock())
    show(
        closed,
        lambda closed: f"{closed.asset} {closed.metric}: {closed.closed_because}",
        json=json,
    )
