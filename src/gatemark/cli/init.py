"""``gatemark init``: write a working pack as a starting point."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.ci.workflows import CI_SERVICES, CiService, write_workflow
from gatemark.packs.init import write_starter


@click.command("init")
@click.argument("folder", required=False, default=".")
@click.option(
    "--ci",
    type=click.Choice(CI_SERVICES),
    help="CI service to write a workflow file for, in this folder.",
)
def init_command(folder: str, ci: CiService | None) -> None:
    """Write a working pack, its data and a CI snippet.

    Existing files are never overwritten. With --ci, a folder that has a pack.yaml keeps it, and
    only the workflow file is written.

    \b
    Examples:
      gatemark init evals
      gatemark init evals --ci github
    """
    pack = Path(folder) / "pack.yaml"
    written = [] if ci is not None and pack.exists() else [*write_starter(Path(folder))]
    if ci is not None:
        written.append(write_workflow(ci, pack.as_posix(), Path()))
    for path in written:
        click.echo(path)
    click.echo(f"try: gatemark run {pack}", err=True)
