"""The data sets of a pack, frozen."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gatemark.core.errors import UsageError
from gatemark.evidence.dataset import draw, frozen_rows, read_dataset
from gatemark.evidence.rows import Snapshot
from gatemark.packs.pack import Pack, SuiteSpec
from gatemark.packs.pack_file import read_pack
from gatemark.packs.probes import load_probes

BUILTIN = "builtin:"


class OpenPack(msgspec.Struct, frozen=True):
    """A pack with the folder it stands in and its data, frozen."""

    pack: Pack
    folder: Path
    snapshots: dict[str, Snapshot]

    @property
    def references(self) -> tuple[str, ...]:
        """The snapshots that a result cites."""
        return tuple(sorted({snapshot.reference for snapshot in self.snapshots.values()}))


def open_pack(path: str) -> OpenPack:
    """The pack of a file, ready to run."""
    pack, folder = read_pack(path), Path(path).resolve().parent
    return OpenPack(pack, folder, load_snapshots(pack, folder))


def load_snapshots(pack: Pack, folder: Path) -> dict[str, Snapshot]:
    """One snapshot per suite; a suite that looks at another's answers shares its snapshot."""
    answering = [suite for suite in pack.suites if suite.dataset is not None]
    found = {suite.id: load_snapshot(suite, folder) for suite in answering}
    for suite in pack.suites:
        if suite.source is not None:
            found[suite.id] = found[suite.source]
    return found


def load_snapshot(suite: SuiteSpec, folder: Path) -> Snapshot:
    """The rows that one suite asks about, drawn when it asks for a draw."""
    dataset = str(suite.dataset)
    if dataset.startswith(BUILTIN):
        snapshot = _builtin(dataset.removeprefix(BUILTIN))
    else:
        snapshot = read_dataset(str(folder / dataset), dataset)
    return snapshot if suite.sample is None else draw(snapshot, suite.sample)


def _builtin(name: str) -> Snapshot:
    if name != "probes_v1":
        raise UsageError(f"no built-in data set is called {name!r} (there is: probes_v1)")
    records = [
        {**probe, "tags": {**probe["tags"], "class": probe["class"]}} for probe in load_probes()
    ]
    return frozen_rows(BUILTIN + name, records)
