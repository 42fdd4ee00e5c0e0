"""``gatemark advisory lint``: a fixture file looked over before it is used or committed."""

from __future__ import annotations

import click

from gatemark.exams.advisory.fixtures.files import open_fixtures


@click.command("lint")
@click.argument("fixtures", metavar="builtin|PATH")
def lint_command(fixtures: str) -> int:
    """Look fixtures over: nothing private, nothing twice, all as pinned.

    PATH is a JSON Lines file or a folder with a manifest. Exit 0 when everything is in order, 2
    with one line per problem when not. Nothing of a payload is printed.

    \b
    Examples:
      gatemark advisory lint builtin
      gatemark advisory lint fixtures.jsonl
    """
    opened = open_fixtures(fixtures)
    pinned = "as pinned" if opened.pinned else "not pinned"
    click.echo(f"{opened.name}: {len(opened.fixtures)} fixtures, {pinned}, {opened.digest}")
    for lane in opened.lanes:
        kinds: dict[str, int] = {}
        for fixture in opened.fixtures:
            if fixture.input_class == lane:
                kinds[fixture.kind] = kinds.get(fixture.kind, 0) + 1
        click.echo(f"  {lane}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    return 0
