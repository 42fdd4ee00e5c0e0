"""``gatemark ledger keygen``, ``checkpoint`` and ``rotate``: keys and signatures."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.cli.options import StrictCommand, json_option, store_option
from gatemark.cli.screen import print_json, put, say
from gatemark.core.errors import UsageError
from gatemark.ledger.keys import (
    KeyMade,
    NewKey,
    command_signer,
    make_key,
    read_passphrase,
    replace_lost_key,
    rotate_key,
    sign_checkpoint,
)
from gatemark.ledger.signing.command_signer import read_raw_public_key
from gatemark.ledger.signing.note import Signer
from gatemark.report.outputs import write_text
from gatemark.workspace import Workspace


def _show(made: KeyMade, *, json: bool, is_in_file: bool) -> None:
    if json:
        print_json(made)
        return
    say(made.key)
    if is_in_file:
        say(f"private key in {made.private_file}; keep it away from the store", err=True)
    say(f"public key in {made.public_file}; recorded in event {made.seq}", err=True)


passphrase_option = click.option(
    "--passphrase",
    is_flag=True,
    help="Encrypt the private key; asks for a passphrase, or reads the file that "
    "GATEMARK_KEY_PASSPHRASE_FILE names.",
)
signer_option = click.option(
    "--signer-command",
    metavar="COMMAND",
    help="Command that signs instead of a key file: bytes on standard input, the Ed25519 "
    "signature on standard output.",
)
public_option = click.option(
    "--public-key",
    metavar="FILE",
    help="Public key of the new key that a command signs with: PEM, DER or 32 bytes.",
)


def _new(file: str, *, passphrase: bool, command: str | None, public: str | None) -> NewKey:
    if (command is None) != (public is None):
        raise UsageError("a key that a command signs with needs its --public-key")
    if command is not None and public is not None:
        if passphrase:
            raise UsageError("--passphrase is for keys in a file")
        return NewKey(path=Path(file), command=command, public=read_raw_public_key(public))
    secret = read_passphrase(file, is_new=True) if passphrase else None
    return NewKey(path=Path(file), passphrase=secret)


def chosen_signer(
    workspace: Workspace, signing_key: str | None, signer_command: str | None
) -> str | Signer | None:
    """Return what to sign with: the file of a key, a command, or nothing."""
    if signing_key is not None and signer_command is not None:
        raise UsageError("give --signing-key or --signer-command, not both")
    return signing_key if signer_command is None else command_signer(workspace, signer_command)


@click.command("keygen", cls=StrictCommand)
@click.argument("file", metavar="FILE")
@click.option("--name", help="Name of the key (default: the name of the ledger).")
@passphrase_option
@signer_option
@public_option
@store_option
@json_option
def keygen(
    *,
    file: str,
    name: str | None,
    passphrase: bool,
    signer_command: str | None,
    public_key: str | None,
    store: str,
    json: bool,
) -> None:
    """Make the key that signs for the ledger.

    FILE gets the private key, readable by its owner alone; FILE.pub gets the public key, which is
    also printed. An event records the key. It replaces the key that Gatemark made by itself at the
    first promotion, which signs the change.

    With --signer-command, the key stays where the command has it (a hardware token, a key service):
    only FILE.pub is written.

    \b
    Examples:
      gatemark ledger keygen ledger.key
      gatemark ledger keygen ledger.key --passphrase
      gatemark ledger keygen token.key --public-key token.pem --signer-command "./sign-by-token"
    """
    workspace = Workspace(store=store)
    new = _new(file, passphrase=passphrase, command=signer_command, public=public_key)
    made = make_key(workspace, new, name, workspace.signing_key_file)
    _show(made, json=json, is_in_file=signer_command is None)


@click.command("rotate", cls=StrictCommand)
@click.argument("file", metavar="FILE")
@click.option("--signing-key", metavar="FILE", help="Current private key.")
@signer_option
@click.option("--lost", metavar="REASON", help="Reason why the old key cannot sign.")
@click.option("--name", help="Name of the new key (default: the name of the old one).")
@passphrase_option
@click.option(
    "--new-signer-command", metavar="COMMAND", help="Command that signs with the new key."
)
@public_option
@store_option
@json_option
def rotate(
    *,
    file: str,
    signing_key: str | None,
    signer_command: str | None,
    lost: str | None,
    name: str | None,
    passphrase: bool,
    new_signer_command: str | None,
    public_key: str | None,
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
    old = chosen_signer(workspace, signing_key, signer_command)
    new = _new(file, passphrase=passphrase, command=new_signer_command, public=public_key)
    if old is not None and lost is None:
        made = rotate_key(workspace, old, new, name)
    elif lost is not None and old is None:
        made = replace_lost_key(workspace, new, lost, name)
    else:
        raise UsageError("give --signing-key or --signer-command, or --lost with a reason")
    _show(made, json=json, is_in_file=new_signer_command is None)


@click.command("checkpoint", cls=StrictCommand)
@click.option("--signing-key", metavar="FILE", help="Private key of the ledger.")
@signer_option
@click.option(
    "-o", "--output", metavar="FILE", help="File to write the note to (default: standard output)."
)
@store_option
def checkpoint(
    *, signing_key: str | None, signer_command: str | None, output: str | None, store: str
) -> None:
    """Sign a checkpoint of the ledger.

    The note (C2SP tlog-checkpoint) is stored and printed. Keep a copy where nobody with access to
    the store can change it: it reveals a history that was rewritten or cut.

    \b
    Examples:
      gatemark ledger checkpoint --signing-key ledger.key -o checkpoint.txt
      gatemark ledger checkpoint --signer-command "./sign-by-token" -o checkpoint.txt
    """
    workspace = Workspace(store=store)
    signer = chosen_signer(workspace, signing_key, signer_command)
    if signer is None:
        raise UsageError("give --signing-key or --signer-command")
    note = sign_checkpoint(workspace, signer)
    if output is None:
        put(note)
    else:
        write_text(output, note)
        say(output)
