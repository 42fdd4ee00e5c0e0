"""The folder of a run's journals: kept to resume, set aside by a new run, removed at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError
from gatemark.core.result import Result
from gatemark.packs.arms import ArmSource
from gatemark.packs.conditions import ASKED, read_conditions
from gatemark.packs.live_graders import LiveGraders
from gatemark.packs.pack_file import OpenPack, describe_scoring
from gatemark.packs.run_choices import RunChoices
from gatemark.targets.journals import Journals, read_journal_key
from gatemark.workspace import Workspace

SET_ASIDE: Final = ".interrupted"

OnNotice = Callable[[str], None]


def open_journals(workspace: Workspace, choices: RunChoices) -> Journals:
    """Return the journals of a run, created before any code of an arm runs."""
    cache = workspace.cache_folder if choices.cache else None
    return Journals(cache, is_new=not choices.resume, key=read_journal_key(os.environ))


def make_run_key(opened: OpenPack, arms: Mapping[str, ArmSource], graders: LiveGraders) -> str:
    """Return the identity of a run; a resumed run must have the same."""
    return digest(
        {
            "judges": graders.identities,
            "labels": {name: found.reference for name, found in opened.labels.items()},
            "pack": digest(opened.pack),
            "snapshots": list(opened.references),
            "arms": {name: dict(arm.identity) for name, arm in arms.items()},
            "scoring": describe_scoring(opened),
        }
    )


def set_journals_aside(journals: Path, on_notice: OnNotice | None) -> None:
    """Move the journals of an interrupted run aside before a new run."""
    if not journals.exists():
        return
    aside = journals.with_name(journals.name + SET_ASIDE)
    _remove_folder(aside)
    try:
        journals.rename(aside)
    except OSError as error:
        raise BadInputError(f"{journals}: cannot be moved: {error.strerror or error}") from error
    if on_notice is not None:
        on_notice(
            f"an interrupted run of this pack was set aside as {aside}; "
            "--resume would have gone on with it"
        )


def remove_journals(
    journals: Journals, results: Sequence[Result], on_notice: OnNotice | None
) -> None:
    """Remove the journals of a complete run; otherwise say how to continue."""
    if not any(ASKED in read_conditions(result) for result in results):
        _remove_folder(journals.folder)
    elif on_notice is not None:
        on_notice("some calls could not be asked; --resume asks those again and keeps the others")


def _remove_folder(journals: Path) -> None:
    """Remove the journals of a run, so that they cannot answer for a new one."""
    if not journals.exists():
        return
    try:
        shutil.rmtree(journals)
    except OSError as error:
        raise BadInputError(f"{journals}: cannot be removed: {error.strerror or error}") from error
