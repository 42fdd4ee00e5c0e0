"""Where the finished calls of a pack's run are written down: for this run, or for later ones too.

A run's own journals are forgotten once it is sealed. A cache stays: a call with the same content,
epoch and pins of its target is then not made again, by this run or a later one. Each arm has its
own, or a baseline that is the candidate would repeat its words and hide how much they vary.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gatemark.core.canonical import DIGEST_PREFIX, digest
from gatemark.targets.journal import Journal, Reuse


class Journals:
    """The journals of one run."""

    def __init__(self, folder: Path, cache: Path | None = None) -> None:
        self._folder = folder
        self._cache = cache

    @property
    def reuse(self) -> Reuse:
        """What a run may take from its journals."""
        return "resume" if self._cache is None else "cache"

    def open(self, name: str, identity: Mapping[str, Any]) -> Journal:
        """The journal of an arm or a judge; ``identity`` is that of the target behind it."""
        if self._cache is None:
            path = self._folder / f"{name}.journal"
        else:
            pins = digest(dict(identity)).removeprefix(DIGEST_PREFIX)[:32]
            path = self._cache / f"{name}-{pins}.journal"
        path.parent.mkdir(parents=True, exist_ok=True)
        return Journal(path, clock=time.monotonic)
