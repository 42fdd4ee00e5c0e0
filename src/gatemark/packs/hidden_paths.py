"""The paths that an isolated target must not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gatemark.packs.pack import Pack
from gatemark.packs.pack_data import BUILTIN
from gatemark.packs.recordings import ARM_MARK


def list_hidden_paths(
    pack: Pack, folder: Path, private: Sequence[Path], other: object = None
) -> tuple[Path, ...]:
    """Return what an isolated target must not read: data, the files' history, the private."""
    named = [suite.dataset for suite in pack.suites if suite.dataset is not None]
    named += [judge.labels for judge in pack.judges.values()]
    arms = () if pack.targets is None else (pack.targets.candidate, pack.targets.baseline)
    judges = (judge.target for judge in pack.judges.values())
    for target in (*arms, *judges, *(cell.target for cell in pack.cells()), other):
        # A recording of the other arm contains its answers, and often the expected ones.
        recorded = target.get("recorded") if isinstance(target, Mapping) else None
        named += [recorded.partition(ARM_MARK)[0]] if isinstance(recorded, str) else []
    for suite in pack.suites:
        for files in (suite.evidence, suite.baseline_evidence):
            named += files.values() if isinstance(files, dict) else ()
    data = [folder / name for name in named if not name.startswith(BUILTIN)]
    history = [place / ".git" for place in (folder, *folder.parents) if (place / ".git").exists()]
    return (*private, *data, *history)
