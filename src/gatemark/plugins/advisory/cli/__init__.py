"""``gatemark advisory``: the dry run of advisory services."""

from __future__ import annotations

import click

from gatemark.cli.options import LazyGroup, Verbs

ADVISORY_VERBS: Verbs = {
    "run": (
        "gatemark.plugins.advisory.cli.run",
        "Ask advisory services about fixtures and record every answer.",
    ),
    "shadow": (
        "gatemark.plugins.advisory.cli.run",
        "Ask advisory services about real inputs and compare with what people or Atlas decided.",
    ),
    "trend": (
        "gatemark.plugins.advisory.cli.compare",
        "Show the numbers of every lane over the runs of a folder.",
    ),
    "diff": (
        "gatemark.plugins.advisory.cli.compare",
        "Show which inputs two runs answered differently.",
    ),
    "lint": (
        "gatemark.plugins.advisory.cli.run",
        "Check fixtures: nothing private, no duplicates, all as pinned.",
    ),
    "queue": (
        "gatemark.plugins.advisory.cli.queue",
        "Write the inputs that need human review, as samples to label.",
    ),
    "packet": (
        "gatemark.plugins.advisory.cli.packet",
        "Put together what people need to discuss a lane, from a sealed result.",
    ),
    "gateway": (
        "gatemark.plugins.advisory.cli.gateway",
        "Serve the reference models on the loopback interface.",
    ),
}


@click.group("advisory", cls=LazyGroup, verbs=ADVISORY_VERBS)
def advisory_command() -> None:
    """Dry-run advisory services: ask, compare, record; never act."""
