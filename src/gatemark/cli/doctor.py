"""``gatemark doctor``: check what this installation can do, and what prevents more."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from typing import Final, Literal

import click
import msgspec

from gatemark import __version__
from gatemark.cli.options import StrictCommand, json_option, store_option
from gatemark.cli.screen import show
from gatemark.core.errors import ExitCode, GatemarkError
from gatemark.workspace import Workspace

State = Literal["ok", "missing", "problem"]

EXTRAS: Final = {
    "report": "HTML reports with charts",
    "parquet": "Parquet data sets, Arrow tables",
    "http": "nothing more: HTTP targets need no extra",
    "postgres": "a PostgreSQL store for teams",
    "server": "gatemark serve",
    "openvino": "the reference advisory gateway",
    "concepts": "fast concept lexicons for run logs",
    "clinical": "clinical concepts for run logs",
    "ray": "evidence folds on a Ray cluster",
    "observe": "gatemark drift metrics (Prometheus)",
    "torch": "guard overhead of PyTorch models",
}
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+).*?extra == ['\"]([a-z]+)['\"]")


class CheckedPart(msgspec.Struct, frozen=True):
    """One part that was checked; ``hint`` says what to do if it is not ok."""

    name: str
    state: State
    detail: str
    hint: str = ""


class Checkup(msgspec.Struct, frozen=True):
    """The state of an installation."""

    version: str
    parts: tuple[CheckedPart, ...]


@click.command("doctor", cls=StrictCommand)
@store_option
@json_option
def doctor_command(store: str, json: bool) -> int:
    """Check this installation: versions, extras, store, temporary folder.

    Missing extras are not errors: install those that you need. Exit 2 if something that every
    command needs does not work.

    \b
    Example:
      gatemark doctor
    """
    parts = (_check_python(), _check_temporary_folder(), _store(store), *_check_extras())
    show(Checkup(__version__, parts), _format_lines, json=json)
    broken = any(part.state == "problem" for part in parts)
    return ExitCode.BAD_INPUT if broken else ExitCode.PASS


def _check_python() -> CheckedPart:
    place = "a virtual environment" if sys.prefix != sys.base_prefix else "the system's Python"
    return CheckedPart("python", "ok", f"{platform.python_version()} in {place}")


def _check_temporary_folder() -> CheckedPart:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"gatemark")
    except OSError as error:
        hint = "set TMPDIR to a writable folder"
        return CheckedPart("temporary folder", "problem", error.strerror or str(error), hint)
    return CheckedPart("temporary folder", "ok", tempfile.gettempdir())


def _store(store: str) -> CheckedPart:
    workspace = Workspace(store=store)
    # The folder may exist without a store: keys alongside a database server lie there.
    if not workspace.has_store:
        folder = workspace.local_folder
        place = folder if folder.exists() else folder.absolute().parent
        if not os.access(place, os.W_OK | os.X_OK):
            hint = "choose another place with --store or GATEMARK_STORE"
            return CheckedPart("store", "problem", f"{place} is not writable", hint)
        return CheckedPart("store", "ok", "none yet; the first sealed result creates it")
    try:
        count = len(workspace.existing_results().lines(1))
    except GatemarkError as error:
        return CheckedPart("store", "problem", str(error), "see: gatemark store info")
    return CheckedPart("store", "ok", "has sealed results" if count else "no results yet")


def _check_extras() -> Iterator[CheckedPart]:
    wanted: dict[str, list[str]] = {name: [] for name in EXTRAS}
    for line in metadata.requires("gatemark") or ():
        found = _REQUIREMENT.match(line)
        if found is not None and found[2] in wanted:
            wanted[found[2]].append(found[1])
    for extra, names in wanted.items():
        absent = [name for name in names if _find_version(name) is None]
        if absent:
            hint = f"pip install 'gatemark[{extra}]'"
            yield CheckedPart(extra, "missing", f"{EXTRAS[extra]}: no {', '.join(absent)}", hint)
        else:
            yield CheckedPart(extra, "ok", EXTRAS[extra])


def _find_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _format_lines(checkup: Checkup) -> Iterator[str]:
    yield f"gatemark {checkup.version}"
    width = max(len(part.name) for part in checkup.parts)
    for part in checkup.parts:
        hint = f"  ({part.hint})" if part.hint else ""
        yield f"{part.state:<8} {part.name:<{width}}  {part.detail}{hint}"
