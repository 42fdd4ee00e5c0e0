"""Baselines by name: which sealed result a candidate is compared with, and who chose it.

A baseline decides what counts as a regression, so a weak one weakens the gate. Only results that
passed, or that a person accepted with a reason, can be baselines; each choice is in the ledger,
and a result names its baseline and how it was chosen.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.errors import IncomparableError, OtherRulesError, RefusedError, UsageError
from gatemark.core.result import PACK_BLOB, Result
from gatemark.core.stored import convert_stored
from gatemark.evidence.inputs import visible_form
from gatemark.evidence.result_rules import check_result_rules
from gatemark.ledger.event import Event, EventDraft
from gatemark.ledger.port import event_moment
from gatemark.packs.events import BASELINE_ACCEPTED, BASELINE_SET, BaselineAccepted, BaselineSet
from gatemark.packs.git_state import ask_git
from gatemark.packs.pack import Pack, PackAsset
from gatemark.packs.stored_pack import read_pack_of_result
from gatemark.workspace import Workspace

LAST_PASS: Final = "last-pass"  # noqa: S105 - a word of the command line
GIT: Final = "git:"
_SHORT_ID: Final = re.compile(r"[0-9a-f]{8,64}")
_NAME: Final = re.compile(r"[A-Za-z][\w.-]{0,63}")
_RESERVED: Final = frozenset({LAST_PASS, "none"})
_PAGE: Final = 200


class NamedBaseline(msgspec.Struct, frozen=True):
    """A named baseline in the ledger."""

    name: str
    result: str
    pack: str
    asset: str
    actor: str
    at: datetime
    note: str = ""


class ChosenBaseline(msgspec.Struct, frozen=True):
    """The result that a run compares with, and how it was chosen."""

    result: str
    how: str


def set_baseline(workspace: Workspace, name: str, reference: str, note: str = "") -> NamedBaseline:
    """Give a sealed result a name; refuse one that neither passed nor was accepted."""
    if not _NAME.fullmatch(name) or name in _RESERVED or is_result_id(name):
        raise UsageError(
            f"{name!r} cannot be the name of a baseline: use letters, digits, '.', '_' and '-', "
            f"starting with a letter; not {', '.join(sorted(_RESERVED))} or the id of a result"
        )
    result = workspace.citable_result(reference)
    pack = read_pack_of_result(workspace, result)
    if result.verdict != "pass" and result.id not in list_accepted(workspace):
        raise RefusedError(
            f"result {result.id} did not pass ({result.verdict}), so it cannot be a baseline; "
            f"accept it first: gatemark baseline accept {result.id[7:19]} --reason TEXT"
        )
    payload = BaselineSet(name, result.id, pack.name, _name_asset(pack.asset), note)
    event = _append_event(workspace, BASELINE_SET, pack.asset.name, payload)
    return _make_named_baseline(event, payload)


def accept_baseline(workspace: Workspace, reference: str, reason: str) -> tuple[Result, datetime]:
    """Accept a sealed result as a baseline, with a reason; its verdict does not change."""
    if not visible_form(reason):
        raise UsageError("say why with --reason")
    result = workspace.citable_result(reference)
    pack = read_pack_of_result(workspace, result)
    payload = BaselineAccepted(result.id, result.verdict, reason.strip())
    return result, _append_event(workspace, BASELINE_ACCEPTED, pack.asset.name, payload).at


def list_baselines(workspace: Workspace) -> list[NamedBaseline]:
    """Return the baselines of a store, each name as it was set last, by pack and name."""
    workspace.existing_store()
    latest: dict[tuple[str, str, str], NamedBaseline] = {}
    for event, payload in workspace.events.events(kind=BASELINE_SET):
        if payload is not None:
            found = _make_named_baseline(event, convert_stored(payload, BaselineSet))
            latest[found.pack, found.asset, found.name] = found
    return [latest[key] for key in sorted(latest)]


def list_accepted(workspace: Workspace) -> dict[str, tuple[Event, BaselineAccepted]]:
    """Return the results that people accepted, each with the last event about it."""
    found: dict[str, tuple[Event, BaselineAccepted]] = {}
    for event, payload in workspace.events.events(kind=BASELINE_ACCEPTED):
        if payload is not None:
            said = convert_stored(payload, BaselineAccepted)
            found[said.result] = (event, said)
    return found


def choose_baseline(workspace: Workspace, pack: Pack, folder: Path, wanted: str) -> ChosenBaseline:
    """Find the result that an id, ``last-pass``, ``git:REF`` or a name stands for."""
    chosen = _find_baseline(workspace, pack, folder, wanted)
    workspace.citable_result(chosen.result)
    return chosen


def _find_baseline(workspace: Workspace, pack: Pack, folder: Path, wanted: str) -> ChosenBaseline:
    if is_result_id(wanted):
        result = workspace.existing_results().get(wanted)
        how = f"chosen by its id by {workspace.actor}, {_name_result(result)}"
        return ChosenBaseline(result.id, how + _note_acceptance(workspace, result))
    if wanted == LAST_PASS:
        return _find_last_pass(workspace, pack)
    if wanted.startswith(GIT):
        return _find_by_commit(workspace, pack, folder, wanted.removeprefix(GIT))
    return _find_by_name(workspace, pack, wanted)


def is_result_id(text: str) -> bool:
    """Return whether a text is the id of a result, or the beginning of one."""
    return text.startswith("sha256:") or _SHORT_ID.fullmatch(text) is not None


def _find_last_pass(workspace: Workspace, pack: Pack) -> ChosenBaseline:
    skipped = ""
    for result in iterate_results_of_pack(workspace, pack):
        if result.verdict != "pass":
            continue
        try:
            check_result_rules(result, workspace.blobs)
        except OtherRulesError as error:
            skipped += f"; skipped a later one: {error}"
            continue
        how = f"last-pass: the last passing result of pack {pack.name}, {_name_result(result)}"
        return ChosenBaseline(result.id, how + skipped)
    raise IncomparableError(
        f"no result of pack {pack.name} for {_name_asset(pack.asset)} has passed in this store",
        ("run the pack on what serves now first, or name a baseline with --baseline",),
    )


def _find_by_name(workspace: Workspace, pack: Pack, name: str) -> ChosenBaseline:
    here = [
        one
        for one in list_baselines(workspace)
        if (one.pack, one.asset) == (pack.name, _name_asset(pack.asset))
    ]
    for one in here:
        if one.name == name:
            result = workspace.existing_results().get(one.result)
            note = f" ({one.note})" if one.note else ""
            how = f"{name}: set by {one.actor} on {one.at:%Y-%m-%d}{note}, {_name_result(result)}"
            return ChosenBaseline(one.result, how + _note_acceptance(workspace, result))
    known = ", ".join(one.name for one in here) or "none"
    raise UsageError(
        f"no file, result or baseline is called {name!r} (baselines of pack {pack.name}: {known}); "
        f"name a result with: gatemark baseline set {name} RESULT"
    )


def _find_by_commit(
    workspace: Workspace, pack: Pack, folder: Path, reference: str
) -> ChosenBaseline:
    commit = _find_commit(folder, reference)
    accepted = list_accepted(workspace)
    for result in iterate_results_of_pack(workspace, pack):
        runtime = result.runtime
        if runtime.get("git.commit") != commit or runtime.get("git.dirty") != "False":
            continue
        if result.verdict == "pass" or result.id in accepted:
            how = (
                f"git:{reference}: the last result of commit {commit[:12]}, {_name_result(result)}"
            )
            return ChosenBaseline(result.id, how + _note_acceptance(workspace, result))
    raise IncomparableError(
        f"no passing result of pack {pack.name} was made from commit {commit[:12]} "
        f"({reference}) without local changes",
        (f"check out {reference} and run the pack there, with the same --store",),
    )


def _note_acceptance(workspace: Workspace, result: Result) -> str:
    """Return a note that a baseline did not pass, and who accepted it."""
    if result.verdict == "pass":
        return ""
    said = f", which did not pass ({result.verdict})"
    found = list_accepted(workspace).get(result.id)
    if found is None:
        return said
    event, why = found
    return f"{said} and was accepted by {event.actor}: {why.reason}"


def iterate_results_of_pack(workspace: Workspace, pack: Pack) -> Iterator[Result]:
    """Yield sealed results of the same pack and asset, the last one first."""
    store = workspace.existing_results()
    before: int | None = None
    while lines := store.lines(_PAGE, before):
        for line in lines:
            result = store.get(line.id)
            is_kept = any(blob.name == PACK_BLOB for blob in result.blobs)
            if (
                result.pack.name == pack.name
                and is_kept
                and read_pack_of_result(workspace, result).asset == pack.asset
            ):
                yield result
        before = lines[-1].seq


def _append_event(
    workspace: Workspace, kind: str, subject: str, payload: BaselineSet | BaselineAccepted
) -> Event:
    draft = EventDraft(
        kind=kind,
        at=event_moment(workspace.events, workspace.clock()),
        actor=workspace.actor,
        subject=subject,
        payload=msgspec.to_builtins(payload),
    )
    (event,) = workspace.events.append([draft])
    return event


def _make_named_baseline(event: Event, said: BaselineSet) -> NamedBaseline:
    return NamedBaseline(
        said.name, said.result, said.pack, said.asset, event.actor, event.at, said.note
    )


def _name_asset(asset: PackAsset) -> str:
    return f"{asset.kind} {asset.name}"


def _name_result(result: Result) -> str:
    return f"result {result.id[7:19]} of {result.finished_at:%Y-%m-%d %H:%MZ}"


def _find_commit(folder: Path, reference: str) -> str:
    if shutil.which("git") is None:
        raise UsageError(f"--baseline {GIT}{reference} needs git, which is not installed")
    # The reference cannot be an option.
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    commit = ask_git(folder, *words)
    if commit is None:
        raise UsageError(f"git knows no commit {reference!r} in {folder}")
    return commit
