"""``gatemark runlog migrate``: rewrite run logs of the source without their known faults."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import say, show
from gatemark.core.errors import ExitCode
from gatemark.plugins.runlog.migrate import describe_migration, migrate_logs


@click.command("migrate", cls=StrictCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", metavar="DIR", required=True, help="Folder to write the logs to.")
@json_option
def migrate_command(*, paths: tuple[str, ...], out: str, json: bool) -> int:
    """Rewrite run logs of the source without their known faults.

    PATHs are run logs or folders of them; subfolders are kept. Removes .trace from ids and null
    from filters, gives older runs names with underscores, and writes one record per line with
    sorted keys. No data is invented: a log without what its version requires is refused, and the
    others are written. Exit 0 if all were written, 1 if some were refused.

    \b
    Examples:
      gatemark runlog migrate published/runs --out data/runs
      gatemark runlog migrate old/case-1.jsonl.gz --out data/runs/V0
    """
    logs = list(migrate_logs(paths, out))
    refused = [log for log in logs if log.output is None]
    for log in refused:
        for problem in log.problems:
            say(f"gatemark: {problem}", err=True)
    show({"logs": logs, "refused": len(refused)}, lambda _: describe_migration(logs), json=json)
    return ExitCode.FAIL if refused else ExitCode.PASS
