"""Read the data of a pack once: rows from its files, or the bundled probes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gatemark.core.errors import UsageError
from gatemark.evidence.rows import Snapshot, draw_rows, frozen_rows, read_dataset
from gatemark.packs.pack import Pack
from gatemark.packs.suite_spec import SuiteSpec

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

BUILTIN = "builtin:"


def load_snapshots(pack: Pack, folder: Path) -> dict[str, Snapshot]:
    """Return a snapshot per suite; a suite that looks at another's answers shares its snapshot."""
    answering = [suite for suite in pack.suites if suite.dataset is not None]
    found = {suite.id: load_snapshot(suite, folder) for suite in answering}
    for suite in pack.suites:
        if suite.source is not None:
            found[suite.id] = found[suite.source]
    return found


def load_snapshot(suite: SuiteSpec, folder: Path) -> Snapshot:
    """Return the rows of one suite, after its draw if it has one."""
    dataset = str(suite.dataset)
    if dataset.startswith(BUILTIN):
        snapshot = _load_builtin(dataset.removeprefix(BUILTIN))
    else:
        snapshot = read_dataset(str(folder / dataset), dataset)
    return snapshot if suite.sample is None else draw_rows(snapshot, suite.sample)


def _load_builtin(name: str) -> Snapshot:
    if name != "probes_v1":
        raise UsageError(f"no built-in data set is called {name!r} (there is: probes_v1)")
    records = [
        {**probe, "tags": {**probe["tags"], "class": probe["class"]}} for probe in load_probes()
    ]
    return frozen_rows(BUILTIN + name, records)


def find_probe_file() -> Traversable:
    """Return the bundled file of probes."""
    return files("gatemark.packs.probes") / "probes_v1.jsonl"


def load_probes() -> list[dict[str, Any]]:
    """Return the bundled probes as plain records, in file order."""
    return [msgspec.json.decode(line) for line in find_probe_file().read_bytes().splitlines()]
