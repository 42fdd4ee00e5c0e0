"""``gatemark ledger keygen``, ``checkpoint`` and ``rotate``: keys and signatures."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json, put, say
from gatemark.core.errors import UsageError
from gatemark.ledger.keys import (
    KeyMade,
    make_key,
    replace_lost_key,
    rotate_key,
    sign_checkpoint,
)
from gatemark.report.outputs import write_text
from gatemark.workspace import Workspace


def _show(made: KeyMade, *, json: bool) -> None:
    if json:
        print_json(made)
        return
    say(made.key)
    say(f"private key in {made.private_file}; keep it away from the store", err=True)
    say(f"public key in {made.public_file}; recorded in event {made.seq}", err=True)


@click.command("keygen")
@click.argument("file", metavar="FILE")
@click.option("--name", help="Name of the key (default: the name of the ledger).")
@store_option
@json_option
def keygen(file: str, name: str | None, store: str, json: bool) -> None:
    """Create the key that signs for the ledger.

    The private key goes into FILE, readable only by its owner; the public key goes into FILE.pub
    and
    is printed. An event records the key.

    \b
    Example:
      gatemark ledger keygen ledger.key
    """
    _show(make_key(Workspace(store=store), Path(file), name), json=json)


@click.command("rotate")
@click.argument("file", metavar="FILE")
@click.option("--signing-key", metavar="FILE", help="Current private key.")
@click.option("--lost", metavar="REASON", help="Why the old key cannot sign.")
@click.option("--name", help="Name of the new key (default: the name of the old one).")
@store_option
@json_option
def rotate(
    *,
    file: str,
    signing_key: str | None,
    lost: str | None,
    name: str | None,
    store: str,
    json: bool,
) -> None:
    """Replace the signing key with a new one.

    Both keys sign the change, so that anyone who trusts the old key can trust the new one. A lost
    key cannot sign: every later check reports this, and the new public key must be distributed.

    \b
    Examples:
      gatemark ledger rotate new.key --signing-key ledger.key
      gatemark ledger rotate new.key --lost "the laptop was stolen"
    """
    workspace = Workspace(store=store)
    if signing_key is not None and lost is None:
        made = rotate_key(workspace, signing_key, Path(file), name)
    elif lost is not None and signing_key is None:
        made = replace_lost_key(workspace, Path(file), lost, name)
    else:
        raise UsageError("give --signing-key, or --lost with a reason")
    _show(made, json=json)


@click.command("checkpoint")
@click.option("--signing-key", required=True, metavar="FILE", help="Private key of the ledger.")
@click.option(
    "-o", "--output", metavar="FILE", help="File to write the note to (default: standard output)."
)
@store_option
def checkpoint(signing_key: str, output: str | None, store: str) -> None:
    """Sign a checkpoint of the ledger.

    The note (C2SP tlog-checkpoint) is stored and printed. Keep a copy where nobody with access to
    the store can change it: it reveals a history that was rewritten or cut.

    \b
    Example:
      gatemark ledger checkpoint --signing-key ledger.key -o checkpoint.txt
    """
    note = sign_checkpoint(Workspace(store=store), signing_key)
    if output is None:
        put(note)
    else:
        write_text(output, note)
        say(output)
