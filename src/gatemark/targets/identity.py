"""What identifies a target: its own pins, the files it declares, a version that people give it.

A digest over these names what was judged. A target whose replies can change while its identity
stays the same is not pinned: answers of it must not be reused in another run.
"""

from __future__ import annotations

from pathlib import Path

from gatemark.core.errors import UsageError
from gatemark.targets.port import Target
from gatemark.targets.sources import declared_digests
from gatemark.targets.spec import TargetSpec


def target_identity(spec: TargetSpec, target: Target, folder: Path) -> dict[str, object]:
    """Return everything that identifies a target, as digest material; never a secret."""
    identity: dict[str, object] = dict(target.identity())
    if spec.files:
        identity["declared_files"] = declared_digests(spec.files, folder)
    if spec.version is not None:
        identity["version"] = spec.version
    return identity


def refuse_unpinned(spec: TargetSpec, place: str) -> None:
    """Refuse to reuse answers of a target that may have changed without a trace."""
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
