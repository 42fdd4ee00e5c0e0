"""``gatemark drift``: watch metrics of live assets, and act when they drift."""

from __future__ import annotations

import click

from gatemark.cli.options import LazyGroup, Verbs

DRIFT_VERBS: Verbs = {
    "push": (".drift.push", "Store points of watched metrics, one per window."),
    "derive": (".drift.push", "Push points counted from results, run logs and advisory decisions."),
    "probe": (".drift.probe", "Judge every window that is due, and act on what drifts."),
    "status": (".drift.probe", "Show the level of every watched metric; changes nothing."),
    "report": (".drift.report", "Write a page about the drift of one asset."),
    "policy": (".drift.policy", "Print a drift policy, or what it does to healthy assets."),
    "close": (".drift.report", "Close an episode and start a new baseline for its metric."),
    "metrics": (".drift.report", "Print every signal as Prometheus metrics."),
    "events": (
        ".drift.report",
        "Print every signal as an OpenTelemetry event gen_ai.evaluation.result.",
    ),
}


@click.group("drift", cls=LazyGroup, verbs=DRIFT_VERBS)
def drift_command() -> None:
    """Watch metrics of live assets and act when they drift."""
