"""``gatemark runlog``: traces, replays and run logs, one subcommand each."""

from __future__ import annotations

import click

from gatemark.cli.options import LazyGroup, Verbs

RUNLOG_VERBS: Verbs = {
    verb: (f"gatemark.plugins.runlog.cli.{verb}", summary)
    for verb, summary in {
        "traces": "Make synthetic multi-agent traces and the manifest that pins them.",
        "manifest": "Write the manifest that pins a folder of traces.",
        "validate": "Check traces, manifests and run logs, each alone and against each other.",
        "migrate": "Rewrite run logs of the source without their known faults.",
        "replay": "Replay one trace in virtual time.",
        "run": "Replay traces through variants and write their run logs.",
        "metrics": "Measure run logs against their traces, variant by variant.",
        "stoplists": "List the concepts that nearly every trace contains.",
        "errors": "Show the cases that stand out.",
    }.items()
}


@click.group("runlog", cls=LazyGroup, verbs=RUNLOG_VERBS)
def runlog_command() -> None:
    """Replay multi-agent traces through variants, and measure the logs."""
