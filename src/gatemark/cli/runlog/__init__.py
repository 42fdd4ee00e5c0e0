"""``gatemark runlog``: traces, replays and run logs, one subcommand each."""

from __future__ import annotations

import click

from gatemark.cli.options import LazyGroup, Verbs

RUNLOG_VERBS: Verbs = {
    "traces": (
        "gatemark.cli.runlog.traces",
        "Make synthetic multi-agent traces and the manifest that pins them.",
    ),
    "manifest": (
        "gatemark.cli.runlog.manifest",
        "Write the manifest that pins a folder of traces.",
    ),
    "validate": (
        "gatemark.cli.runlog.validate",
        "Check traces, manifests and run logs, each alone and against each other.",
    ),
    "migrate": (
        "gatemark.cli.runlog.migrate",
        "Rewrite run logs of the source without their known faults.",
    ),
    "replay": ("gatemark.cli.runlog.replay", "Replay one trace in virtual time."),
    "run": ("gatemark.cli.runlog.run", "Replay traces through variants and write their run logs."),
    "metrics": (
        "gatemark.cli.runlog.metrics",
        "Measure run logs against their traces, variant by variant.",
    ),
    "stoplists": (
        "gatemark.cli.runlog.stoplists",
        "List the concepts that nearly every trace contains.",
    ),
    "errors": ("gatemark.cli.runlog.errors", "Show the cases that stand out."),
    "calibrate": (
        "gatemark.cli.runlog.calibrate",
        "Choose the token gate's settings, or V3's chunk size, from evidence.",
    ),
}


@click.group("runlog", cls=LazyGroup, verbs=RUNLOG_VERBS)
def runlog_command() -> None:
    """Replay multi-agent traces through variants, and measure the logs."""
