"""``gatemark init``: a pack that runs, to be changed into one's own."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.packs.init import write_starter


@click.command("init")
@click.argument("folder", required=False, default=".")
def init_command(folder: str) -> None:
    """Write a working pack, its data and a CI snippet.

    Nothing that is already there is overwritten.

    \b
    Example:
      gatemark init evals
    """
    written = write_starter(Path(folder))
    for path in written:
        click.echo(path)
    click.echo(f"try: gatemark run {Path(folder) / 'pack.yaml'}", err=True)
