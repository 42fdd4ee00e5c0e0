"""``gatemark init``: write a working pack as a starting point."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.ci.workflows import CI_SERVICES, CiService, write_workflow
from gatemark.cli.screen import say
from gatemark.packs.init import FAULTY_FILE, SOUND_LINE, write_starter


@click.command("init")
@click.argument("folder", required=False, default=".")
@click.option(
    "--ci",
    type=click.Choice(CI_SERVICES),
    help="CI service to write a workflow file for, in this folder.",
)
def init_command(folder: str, ci: CiService | None) -> None:
    """Write a pack to try, with its data and a CI snippet.

    The candidate of the pack fails on purpose, and the last lines say how to mend it. Existing
    files are never overwritten. With --ci, a folder that has a pack.yaml keeps it, and only the
    workflow file is written.

    \b
    Examples:
      gatemark init evals
      gatemark init evals --ci github
    """
    pack = Path(folder) / "pack.yaml"
    is_new = ci is None or not pack.exists()
    written = [*write_starter(Path(folder), planted_fault=True)] if is_new else []
    if ci is not None:
        written.append(write_workflow(ci, pack.as_posix(), Path()))
    for path in written:
        say(path)
    for line in _next_steps(pack, is_new=is_new):
        say(line, err=True)


def _next_steps(pack: Path, *, is_new: bool) -> tuple[str, ...]:
    if not is_new:
        return (f"try: gatemark run {pack}",)
    return (
        "",
        f"1. See it fail: gatemark run {pack}",
        f"   The candidate, version 2 in {pack.with_name(FAULTY_FILE)}, has forgotten refunds.",
        f"2. Make it pass: in {pack.with_name(FAULTY_FILE)}, change the line to",
        f"     {SOUND_LINE}",
        "   and run it again.",
        f"3. Put your own data, targets and rules into {pack}.",
    )
