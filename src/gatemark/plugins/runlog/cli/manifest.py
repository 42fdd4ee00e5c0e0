"""``gatemark runlog manifest``: pin a folder of traces."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import show
from gatemark.core.errors import ExitCode
from gatemark.plugins.runlog.cli.options import mode_option
from gatemark.plugins.runlog.import_traces import UNKNOWN_SOURCE, ManifestMade, write_manifest
from gatemark.plugins.runlog.records.trace_file_rules import Mode


@click.command("manifest", cls=StrictCommand)
@click.argument("traces", metavar="DIR")
@click.option("--out", metavar="DIR", help="Folder to write to (default: that of the traces).")
@click.option(
    "--source-url",
    metavar="URL",
    default=UNKNOWN_SOURCE,
    show_default=True,
    help="Where the system that made the traces is published.",
)
@mode_option
@json_option
def manifest_command(
    *, traces: str, out: str | None, source_url: str, mode: Mode, json: bool
) -> int:
    """Write the manifest that pins a folder of traces.

    The manifest lists every case with the hash of its trace; run and metrics need it.
    The list of cases is written alongside it.

    \b
    Examples:
      gatemark import langgraph.json --to traces -o data/traces
      gatemark runlog manifest data/traces
      gatemark runlog manifest data/traces --out data/manifests
    """
    made = write_manifest(traces, out, source_url=source_url, mode=mode)
    show(made, _render_manifest, json=json)
    return ExitCode.PASS


def _render_manifest(made: ManifestMade) -> Iterator[str]:
    yield f"{made.cases} cases, {made.turns} turns, {made.deltas} deltas"
    yield f"written: {made.manifest}"
    yield f"written: {made.case_list}"
