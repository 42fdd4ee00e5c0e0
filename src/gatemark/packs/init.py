"""Writing the starter pack."""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from gatemark.core.atomic import write_whole
from gatemark.core.errors import RefusedError
from gatemark.packs.documents import make_json_schema

SKIPPED = {"__init__.py", "__pycache__"}
FAULTY_FILE: Final = "sorter.py"
SOUND_LINE: Final = "FORGOTTEN: tuple[str, ...] = ()"
FAULTY_LINE: Final = 'FORGOTTEN: tuple[str, ...] = ("refund",)'
_FAULT: Final = f"""\
# A planted fault: version 2 has forgotten refunds, so the gate fails. Remove "refund" from the
# tuple, leaving (), and the gate passes.
{FAULTY_LINE}"""


def write_starter(folder: Path, *, planted_fault: bool = False) -> tuple[Path, ...]:
    """Copy the starter's files; an existing file is never touched.

    With a planted fault, the candidate fails for a reason that its source explains.
    """
    wanted = [
        (folder / name, source) for name, source in _starter_files(files("gatemark.packs.starter"))
    ]
    present = [str(target) for target, _ in wanted if target.exists()]
    if present:
        raise RefusedError(f"{present[0]} is already there; choose an empty folder")
    for target, source in wanted:
        data = source.read_bytes()
        if planted_fault and target.name == FAULTY_FILE:
            data = data.replace(SOUND_LINE.encode(), _FAULT.encode())
        write_whole(target, [data])
    schema = folder / "pack.schema.json"
    write_whole(
        schema, [json.dumps(make_json_schema("gatemark.pack/1"), indent=2).encode() + b"\n"]
    )
    return (*(target for target, _ in wanted), schema)


def _starter_files(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name in SKIPPED:
            continue
        if entry.is_dir():
            found.extend(_starter_files(entry, f"{prefix}{entry.name}/"))
        else:
            found.append((prefix + entry.name, entry))
    return found
