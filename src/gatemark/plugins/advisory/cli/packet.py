"""``gatemark advisory packet``: what people need to discuss a lane."""

from __future__ import annotations

from functools import partial

import click

from gatemark.cli.options import StrictCommand, store_option
from gatemark.cli.screen import Outputs, output_options
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.plugins.advisory.promotion_packet import (
    build_packet,
    render_packet_html,
    render_packet_markdown,
)
from gatemark.workspace import Workspace


@click.command("packet", cls=StrictCommand)
@click.argument("lane")
@click.option(
    "--result",
    required=True,
    metavar="RESULT",
    help="Sealed advisory result: its id, or 8 digits of it.",
)
@click.option("--rollback", metavar="TEXT", help="Rollback plan (default: that of the policy).")
@store_option
@output_options(".md", ".html", ".json")
def packet_command(
    outputs: Outputs, *, lane: str, result: str, rollback: str | None, store: str
) -> int:
    """Put together what people need to discuss a lane, from a sealed result.

    Contains scope, rollback plan, reviewer, blockers, caveats, numbers with intervals, runs and
    models. A packet grants nothing. Exit 0 if the lane is a candidate for discussion, else 1.

    \b
    Examples:
      gatemark advisory packet voice_audio/npu_voice_audio_pipeline --result 3f2a9c01 -o packet.md
      gatemark advisory packet LANE --result 3f2a9c01 --rollback "leave it out" -o packet.html
    """
    found = build_packet(Workspace(store=store), lane, result, rollback)
    outputs.write(
        {
            ".md": partial(render_packet_markdown, found),
            ".html": partial(render_packet_html, found),
            ".json": partial(json_file, found),
        }
    )
    outputs.show(found, lambda packet: render_packet_markdown(packet).decode())
    return ExitCode.FAIL if found.blockers else ExitCode.PASS
