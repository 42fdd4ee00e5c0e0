"""``gatemark drift``: watch metrics of live assets, and act when they drift."""

from __future__ import annotations

import click

from gatemark.cli.options import LazyGroup, Verbs

DRIFT_VERBS: Verbs = {
    "push": ("gatemark.cli.drift.push", "Store points of watched metrics, one per window."),
    "derive": (
        "gatemark.cli.drift.push",
        "Push points counted from results, run logs and advisory decisions.",
    ),
    "probe": (
        "gatemark.cli.drift.probe",
        "Judge every window that is due, and act on what drifts.",
    ),
    "status": (
        "gatemark.cli.drift.probe",
        "Show the level of every watched metric; changes nothing.",
    ),
    "report": ("gatemark.cli.drift.report", "Write a page about the drift of one asset."),
    "policy": (
        "gatemark.cli.drift.policy",
        "Print a drift policy, or what it does to healthy assets.",
    ),
    "close": (
        "gatemark.cli.drift.report",
        "Close an episode and start a new baseline for its metric.",
    ),
    "metrics": ("gatemark.cli.drift.report", "Print every signal as Prometheus metrics."),
    "events": (
        "gatemark.cli.drift.report",
        "Print every signal as an OpenTelemetry event gen_ai.evaluation.result.",
    ),
}


@click.group("drift", cls=LazyGroup, verbs=DRIFT_VERBS)
def drift_command() -> None:
    """Watch metrics of live assets and act when they drift."""
