"""The identity of a target: what was judged, and whether it is still the same.

A digest over a target's pins, the files it declares and the version that people give it identifies
what was judged. A target whose replies can change while its identity stays the same is not pinned:
its answers must not be reused in another run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.command import CommandTarget
from gatemark.targets.file_digests import digest_declared_files
from gatemark.targets.port import Target
from gatemark.targets.python_worker import PythonWorkerTarget
from gatemark.targets.spec import TargetSpec


def describe_target(spec: TargetSpec, target: Target, folder: Path) -> dict[str, object]:
    """Return everything that identifies a target, as digest material; never a secret."""
    identity: dict[str, object] = dict(target.identity())
    if spec.files:
        identity["declared_files"] = digest_declared_files(spec.files, folder)
    if spec.version is not None:
        identity["version"] = spec.version
    return identity


def find_changed_files(
    spec: TargetSpec, target: Target, folder: Path, identity: Mapping[str, object]
) -> tuple[str, ...]:
    """Return the files of a target's identity that changed since it was opened."""
    readers: dict[str, Callable[[], dict[str, str]]] = {}
    if isinstance(target, PythonWorkerTarget):
        readers["sources"] = target.current_sources
    elif isinstance(target, CommandTarget):
        readers["files"] = target.current_files
    if spec.files:
        readers["declared_files"] = partial(digest_declared_files, spec.files, folder)
    found: set[str] = set()
    for key, read in readers.items():
        before = msgspec.convert(identity[key], dict[str, str])
        try:
            now = read()
        except (UsageError, BadInputError, OSError):
            now = {}  # gone, or not readable any more
        found.update(name for name in {**before, **now} if before.get(name) != now.get(name))
    return tuple(sorted(found))


def refuse_unpinned(spec: TargetSpec, place: str) -> None:
    """Refuse to reuse answers of a target that may have changed undetected."""
    if spec.version is not None or spec.recorded is not None:
        return
    if spec.http is not None or spec.openai is not None:
        raise UsageError(
            f"--cache: {place} is not pinned: what answers behind its address can change; add "
            "version: beside it, and raise it when the endpoint changes"
        )
    if spec.files is None:
        raise UsageError(
            f"--cache: {place} is not pinned: it may read files that its identity does not cover; "
            "list them, as in files: [prompts/*.txt], or say files: [] when it reads none"
        )
