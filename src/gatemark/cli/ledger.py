"""``gatemark ledger``: verify, sign, export and list the ledger."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from gatemark.cli.options import StrictGroup, json_option, store_option
from gatemark.cli.screen import print_json, put, running_count, say, show
from gatemark.core.errors import UsageError
from gatemark.integrity import erase, verify
from gatemark.ledger.checks.report import format_ledger_report
from gatemark.ledger.export import export_ledger
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
from gatemark.ledger.prove import check_proof, prove, prove_growth
from gatemark.ledger.read_log import read_log
from gatemark.ledger.resync_clock import resync_clock
from gatemark.ledger.signing.command_signer import read_raw_public_key
from gatemark.ledger.signing.note import Signer
from gatemark.ledger.verify import VerifyRequest
from gatemark.report.outputs import write_text
from gatemark.workspace import Workspace

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


@click.group("ledger", cls=StrictGroup)
def ledger_command() -> None:
    """Verify, sign, export and list the ledger of a store."""


@ledger_command.command("verify")
@click.argument("folder", metavar="[EXPORT]", required=False)
@click.option("--rescore", is_flag=True, help="Derive every result again from its evidence.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="PUB",
    help="Public key to trust: the key itself or a file (default: the keys of the ledger). "
    "Repeatable.",
)
@click.option(
    "--since", multiple=True, metavar="CHECKPOINT", help="Checkpoint stored elsewhere. Repeatable."
)
@click.option(
    "--require-checkpoint",
    is_flag=True,
    help="Exit with 3 unless a checkpoint that you hold (--since), or one signed by a key that you "
    "hold (--key), was checked.",
)
@store_option
@json_option
def verify_command(
    *,
    folder: str | None,
    rescore: bool,
    keys: tuple[str, ...],
    since: tuple[str, ...],
    require_checkpoint: bool,
    store: str,
    json: bool,
) -> int:
    """Verify the whole ledger, offline.

    Checks blobs, chain, gaps, payloads, tree, checkpoints and their signatures, and what every
    decision cites. With EXPORT, checks a folder written by 'gatemark ledger export' without a
    store. Exit 4 with the first bad sequence number if something does not verify, 3 if something
    could not be checked.

    "PASS, unanchored" means that the ledger is consistent in itself, but was not compared with
    anything that you hold: somebody who can write to the store could have rewritten all of it.

    \b
    Examples:
      gatemark ledger verify
      gatemark ledger verify --rescore --key ledger.key.pub --since checkpoint.txt
      gatemark ledger verify exported --key ledger.key.pub
    """
    request = VerifyRequest(
        export=folder,
        keys=keys,
        since=since,
        rescore=rescore,
        require_checkpoint=require_checkpoint,
    )
    with running_count("events checked") as progress:
        report = verify(Workspace(store=store), request, progress)
    show(report, format_ledger_report, json=json)
    return report.exit_code


def _show(made: KeyMade, *, json: bool, is_in_file: bool) -> None:
    if json:
        print_json(made)
        return
    say(made.key)
    if is_in_file:
        say(f"private key in {made.private_file}; keep it away from the store", err=True)
    say(f"public key in {made.public_file}; recorded in event {made.seq}", err=True)


def _plan_new_key(
    file: str, *, passphrase: bool, command: str | None, public: str | None
) -> NewKey:
    if (command is None) != (public is None):
        raise UsageError("a key that a command signs with needs its --public-key")
    if command is not None and public is not None:
        if passphrase:
            raise UsageError("--passphrase is for keys in a file")
        return NewKey(path=Path(file), command=command, public=read_raw_public_key(public))
    secret = read_passphrase(file, is_new=True) if passphrase else None
    return NewKey(path=Path(file), passphrase=secret)


def _choose_signer(
    workspace: Workspace, signing_key: str | None, signer_command: str | None
) -> str | Signer | None:
    """Return what to sign with: the file of a key, a command, or nothing."""
    if signing_key is not None and signer_command is not None:
        raise UsageError("give --signing-key or --signer-command, not both")
    return signing_key if signer_command is None else command_signer(workspace, signer_command)


@ledger_command.command("keygen")
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
    also printed. An event records the key. It replaces the key that Gatemark made at the first
    promotion, which signs the change.

    With --signer-command, the key stays where the command has it (a hardware token, a key service):
    only FILE.pub is written.

    \b
    Examples:
      gatemark ledger keygen ledger.key
      gatemark ledger keygen ledger.key --passphrase
      gatemark ledger keygen token.key --public-key token.pem --signer-command "./sign-by-token"
    """
    workspace = Workspace(store=store)
    new = _plan_new_key(file, passphrase=passphrase, command=signer_command, public=public_key)
    made = make_key(workspace, new, name, workspace.signing_key_file)
    _show(made, json=json, is_in_file=signer_command is None)


@ledger_command.command("checkpoint")
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
    signer = _choose_signer(workspace, signing_key, signer_command)
    if signer is None:
        raise UsageError("give --signing-key or --signer-command")
    note = sign_checkpoint(workspace, signer)
    if output is None:
        put(note)
    else:
        write_text(output, note)
        say(output)


@ledger_command.command("rotate")
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
    old = _choose_signer(workspace, signing_key, signer_command)
    new = _plan_new_key(file, passphrase=passphrase, command=new_signer_command, public=public_key)
    if old is not None and lost is None:
        made = rotate_key(workspace, old, new, name)
    elif lost is not None and old is None:
        made = replace_lost_key(workspace, new, lost, name)
    else:
        raise UsageError("give --signing-key or --signer-command, or --lost with a reason")
    _show(made, json=json, is_in_file=new_signer_command is None)


@ledger_command.command("export")
@click.argument("folder", metavar="DIR")
@click.option(
    "--signing-key", metavar="FILE", help="Private key of the ledger; required to export decisions."
)
@signer_option
@store_option
@json_option
def export_command(
    *, folder: str, signing_key: str | None, signer_command: str | None, store: str, json: bool
) -> None:
    """Write the ledger into a folder that anyone can verify without the database.

    Results are exported as in-toto statements, decisions as signed envelopes. With a key, a fresh
    checkpoint is added. DIR must be empty or not exist yet.

    \b
    Example:
      gatemark ledger export exported --signing-key ledger.key
    """
    workspace = Workspace(store=store)
    done = export_ledger(workspace, folder, _choose_signer(workspace, signing_key, signer_command))
    counted = ("events", "results", "decisions", "blobs", "checkpoints")
    words = ", ".join(f"{getattr(done, name)} {name}" for name in counted)
    show(done, lambda done: f"{done.folder}: {words}", json=json)


@ledger_command.command("prove")
@click.argument("seq", type=click.IntRange(1), required=False)
@click.option("--since", metavar="FILE", help="Checkpoint that the ledger must continue.")
@click.option(
    "--checkpoint", metavar="FILE", help="Checkpoint to prove against (default: the newest)."
)
@click.option("--check", metavar="FILE", help="Proof to check; needs no store.")
@click.option(
    "--key", "keys", multiple=True, metavar="PUB", help="Public key to check with. Repeatable."
)
@store_option
def prove_command(
    *,
    seq: int | None,
    since: str | None,
    checkpoint: str | None,
    check: str | None,
    keys: tuple[str, ...],
    store: str,
) -> None:
    """Prove something about the ledger, or check such a proof.

    With SEQ, proves that the ledger contains an event; with --since, that it continues an earlier
    checkpoint. The proof is a JSON document that can be checked with the public key alone.

    \b
    Examples:
      gatemark ledger prove 7 > proof.json
      gatemark ledger prove --since checkpoint.txt > growth.json
      gatemark ledger prove --check proof.json --key ledger.key.pub
    """
    if sum(given is not None for given in (seq, since, check)) != 1:
        raise UsageError("give the number of an event, --since FILE or --check FILE")
    workspace = Workspace(store=store)
    if check is not None:
        say(check_proof(check, keys))
    elif since is not None:
        print_json(prove_growth(workspace, since, checkpoint))
    elif seq is not None:
        print_json(prove(workspace, seq, checkpoint))


@ledger_command.command("erase")
@click.argument("what", metavar="WHAT")
@click.option("--reason", required=True, help="Reason; stays in the ledger.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed and change nothing.")
@store_option
@json_option
def erase_command(*, what: str, reason: str, dry_run: bool, store: str, json: bool) -> None:
    """Erase the payload of an event, a blob, or texts, and leave a tombstone.

    \b
    WHAT is one of:
      12                  the payload of event 12
      sha256:…            a blob
      result:ID           the texts of a sealed result: tables, caveats, reasons
      pair:REVIEW/NUMBER  a pair of a review, by its number or its item
      item:LABELS/ID      an item of a label set

    The chain, the tree and every signature stay valid, and 'gatemark ledger verify' says who erased
    what, when and why. Payloads that decisions depend on cannot be erased; neither can actors,
    subjects and the ids of items. Caches and the journals of interrupted runs in the store's folder
    are deleted as well, and the same content is refused from then on.

    \b
    Examples:
      gatemark ledger erase pair:letters/3 --reason "request 4711" --dry-run
      gatemark ledger erase 12 --reason "request 4711: person asked to be forgotten"
    """
    report = erase(Workspace(store=store), what, reason, dry_run=dry_run)
    show(report, lambda report: report.text, json=json)


@ledger_command.command("log")
@click.option(
    "--after",
    type=click.IntRange(0),
    default=0,
    show_default=False,
    help="Number of the event to start after.",
)
@click.option("--kind", help="Kind of events to list.")
@click.option("--subject", help="Asset whose events to list.")
@click.option("--limit", type=click.IntRange(1), default=100, help="Maximum number of events.")
@store_option
@json_option
def log_command(
    *, after: int, kind: str | None, subject: str | None, limit: int, store: str, json: bool
) -> None:
    """List events in the order of the ledger.

    \b
    Examples:
      gatemark ledger log --subject support-triage
      gatemark ledger log --kind transition --json
    """
    found = read_log(Workspace(store=store), after=after, kind=kind, subject=subject, limit=limit)
    if json:
        print_json([{**msgspec.to_builtins(event), "payload": payload} for event, payload in found])
        return
    for event, payload in found:
        moment = event.at.strftime("%Y-%m-%d %H:%M:%SZ")
        erased = "  (erased)" if payload is None else ""
        subject = event.subject or "-"
        say(f"{event.seq:>6}  {moment}  {event.kind:<18}  {event.actor}  {subject}{erased}")


@ledger_command.command("resync-clock")
@click.option("--reason", required=True, help="Reason; stays in the ledger.")
@store_option
def resync_clock_command(reason: str, store: str) -> None:
    """Continue at the current time after a clock that was ahead.

    The ledger refuses events dated before its last one. If a wrong clock dated that one into the
    future, this records the mistake, and later events have the current time again.

    \b
    Example:
      gatemark ledger resync-clock --reason "host b was two days ahead"
    """
    event = resync_clock(Workspace(store=store), reason)
    say(f"event {event.seq}: times continue from {event.at.isoformat()}")
