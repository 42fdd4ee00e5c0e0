"""``gatemark init``: write a working pack as a starting point."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.packs.init import write_starter


@click.command("init")
@click.argument("folder", required=False, default=".")
def init_command(folder: str) -> None:
    """Write a working pack, its data and a CI snippet.

    Existing files are never overwritten.

    \b
    Example:
      gatemark init evals
    """
    written = write_starter(Path(folder))
    for path in written:
        click.echo(path)
    click.echo(f"try: gatemark run {Path(folder) / 'pack.yaml'}", err=True)
