"""``gatemark drift``: watch metrics of live assets, and act when they drift."""

from __future__ import annotations

import click

from gatemark.cli.options import LazyGroup, Verbs

DRIFT_VERBS: Verbs = {
    "push": ("gatemark.release.cli.drift.push", "Store points of watched metrics, one per window."),
    "derive": (
        "gatemark.release.cli.drift.push",
        "Push points counted from results, run logs and advisory decisions.",
    ),
    "probe": (
        "gatemark.release.cli.drift.probe",
        "Judge every window that is due, and act on what drifts.",
    ),
    "status": (
        "gatemark.release.cli.drift.probe",
        "Show the level of every watched metric; changes nothing.",
    ),
    "report": ("gatemark.release.cli.drift.report", "Write a page about the drift of one asset."),
    "policy": (
        "gatemark.release.cli.drift.policy",
        "Print a drift policy, or what it does to healthy assets.",
    ),
    "close": (
        "gatemark.release.cli.drift.report",
        "Close an episode and start a new baseline for its metric.",
    ),
    "metrics": ("gatemark.release.cli.drift.report", "Print every signal as Prometheus metrics."),
    "events": (
        "gatemark.release.cli.drift.report",
        "Print every signal as an OpenTelemetry event gen_ai.evaluation.result.",
    ),
}


@click.group("drift", cls=LazyGroup, verbs=DRIFT_VERBS)
def drift_command() -> None:
    """Watch metrics of live assets and act when they drift."""
