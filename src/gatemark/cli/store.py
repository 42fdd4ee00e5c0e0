"""``gatemark store``: the layout of a store, its upgrade, and copies of it."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictGroup, json_option, store_option
from gatemark.cli.screen import running_count, say, show
from gatemark.core.errors import ExitCode
from gatemark.ledger.store import (
    StoreCopy,
    StoreInfo,
    StoreUpgrade,
    UpgradeRequest,
    back_up_store,
    restore_store,
    store_info,
    upgrade_store,
)
from gatemark.workspace import Workspace


@click.group("store", cls=StrictGroup)
def store_command() -> None:
    """Inspect, upgrade, back up and restore a store."""


@store_command.command("info")
@store_option
@json_option
def info_command(store: str, json: bool) -> None:
    """Show the place, layout and size of a store.

    The layout is the set of tables in the database. Works with any layout, even one that is too old
    or too new for this version, and changes nothing.

    \b
    Examples:
      gatemark store info
      gatemark store info --store postgresql://gatemark@db.example/gatemark --json
    """
    show(store_info(Workspace(store=store)), _format_info, json=json)


@store_command.command("upgrade")
@click.option(
    "--backup",
    metavar="PATH",
    help="File for the backup: .tar.zst for an archive like that of 'gatemark store backup' "
    "(needed for PostgreSQL), any other name for a copy of the SQLite database. "
    "[default: a copy next to the SQLite database]",
)
@click.option("--no-backup", is_flag=True, help="Make no backup, because you have one.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@store_option
@json_option
def upgrade_command(
    backup: str | None, no_backup: bool, dry_run: bool, store: str, json: bool
) -> int:
    """Bring a store to the newest layout.

    Makes a backup first. No other command changes the layout of a store. The upgrade is one
    transaction: if it is interrupted, the store is unchanged. The backup of a SQLite store is a
    copy of its database; blobs are files that an upgrade never touches. Stop servers and jobs that
    use the store first: an older Gatemark may not know the new layout.

    \b
    Examples:
      gatemark store upgrade --dry-run
      gatemark store upgrade
      gatemark store upgrade --backup before.tar.zst --store postgresql://gatemark@db.example/gatemark
    """
    request = UpgradeRequest(backup=backup, no_backup=no_backup, dry_run=dry_run)
    with running_count("events checked") as progress:
        done = upgrade_store(Workspace(store=store), request, progress)
    show(done, _upgrade_text, json=json)
    if done.issue is not None:
        say(f"gatemark: {done.issue}", err=True)
        return ExitCode.INTEGRITY
    return ExitCode.PASS


@store_command.command("backup")
@click.argument("file", metavar="FILE.tar.zst")
@store_option
@json_option
def backup_command(file: str, store: str, json: bool) -> None:
    """Write a whole store into one new file.

    The file contains every table and every blob, and can be restored into SQLite or PostgreSQL. It
    is read back and checked before it gets its name. A store whose chain or blobs do not verify is
    refused (exit 4). The file also contains the password hashes, sign-in links and token hashes of
    accounts: it is as secret as the store, and only you can read it (mode 0600). It does not
    contain private keys, caches or journals of unfinished runs.

    \b
    Examples:
      gatemark store backup store-2026-11-16.tar.zst
      gatemark store backup team.tar.zst --store postgresql://gatemark@db.example/gatemark
    """
    with running_count("events checked") as progress:
        done = back_up_store(Workspace(store=store), file, progress)
    show(done, lambda done: f"backed up {done.place} to {done.file}: {_copy_text(done)}", json=json)


@store_command.command("restore")
@click.argument("file", metavar="FILE.tar.zst")
@store_option
@json_option
def restore_command(file: str, store: str, json: bool) -> None:
    """Create a store from a backup.

    --store names the place: a folder that is empty or does not exist, or a PostgreSQL database
    without a store. The file's digests are checked first and the ledger's chain last. A damaged
    file is refused with exit 4, a place that is taken with exit 1, and nothing is left behind. The
    store keeps its layout, people, password hashes and tokens.

    \b
    Examples:
      gatemark store restore store-2026-11-16.tar.zst --store restored
      gatemark store restore store.tar.zst --store postgresql://gatemark@db.example/gatemark
    """
    with running_count("events checked") as progress:
        done = restore_store(Workspace(store=store), file, progress)
    show(
        done, lambda done: f"restored {done.place} from {done.file}: {_copy_text(done)}", json=json
    )
    if done.state == "too_old" and not json:
        say('run "gatemark store upgrade" before you use it (it makes a backup first)')


def _copy_text(done: StoreCopy) -> str:
    counted = ((done.events, "event"), (done.results, "result"), (done.blobs, "blob"))
    words = ", ".join(_format_count(count, noun) for count, noun in counted)
    return f"layout {done.layout}, {words}"


def _format_info(found: StoreInfo) -> str:
    lines = [
        ("place", f"{found.place} ({found.database})"),
        ("layout", f"{found.layout}, {_describe_layout(found)}"),
        ("events", _format_number(found.events)),
        ("results", _format_number(found.results)),
        ("blobs", _format_number(found.blobs)),
        ("on disk", f"{found.bytes_on_disk:,} bytes"),
    ]
    return "\n".join(f"{title:<8} {value}" for title, value in lines)


def _describe_layout(found: StoreInfo) -> str:
    newest = f"this build makes {found.newest_layout}"
    if found.state == "newest":
        return "the newest of this build"
    if found.state == "usable":
        return f'usable as it is; {newest}: "gatemark store upgrade" brings it there'
    if found.state == "too_old":
        return (
            f"too old; this build needs {found.oldest_usable_layout} or newer: "
            'run "gatemark store upgrade" (it makes a backup first)'
        )
    if found.state == "too_new":
        return f"too new; {newest}: install a newer Gatemark"
    return "not a layout of Gatemark"


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _format_number(count: int | None) -> str:
    return "none" if count is None else f"{count:,}"


def _upgrade_text(done: StoreUpgrade) -> str:
    if done.is_done_elsewhere:
        return f"{done.place}: another process has just upgraded it to layout {done.to_layout}"
    if done.from_layout == done.to_layout:
        return f"{done.place}: has the newest layout, {done.to_layout}; nothing to do"
    change = f"{done.place} from layout {done.from_layout} to {done.to_layout}"
    steps = f"({', '.join(done.steps)})"
    if not done.is_done:
        backup = "no backup" if done.backup is None else f"a backup in {done.backup}"
        return f"would upgrade {change} {steps} with {backup}; nothing was changed"
    lines = [] if done.backup is None else [f"backup in {done.backup}"]
    lines.append(f"upgraded {change} {steps}")
    if done.events_checked is not None:
        lines.append(
            f"checked the chain of {_format_count(done.events_checked, 'event')}; "
            '"gatemark ledger verify" checks everything'
        )
    return "\n".join(lines)
