"""Import paired measurements of a shadow and the live version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.evidence.small_file import read_small_file
from gatemark.release.lifecycle.act import CommandResult, act, preview
from gatemark.release.lifecycle.commands import AssetField, Environment, PushShadow, VersionField
from gatemark.release.lifecycle.model.nouns import PRODUCTION, ShadowPairs, VersionRef
from gatemark.workspace import Workspace

MAX_BYTES: Final = 16 * 1024 * 1024


class _ArmNumbers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    candidate: float
    live: float


class _ArmCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    candidate: int
    live: int


class ShadowLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One span of a file: pairs, how many agree, errors, and mean latency and cost per input."""

    start: Annotated[datetime, Meta(tz=True)]
    end: Annotated[datetime, Meta(tz=True)]
    n: int
    agreed: int
    errors: _ArmCounts
    latency_ms: _ArmNumbers | None = None
    cost: _ArmNumbers | None = None


class PushPairs(msgspec.Struct, frozen=True, kw_only=True):
    """Push measurements of a shadow and the live version on the same inputs."""

    asset: AssetField
    version: VersionField
    spans: Annotated[
        tuple[dict[str, object], ...],
        Meta(
            min_length=1,
            max_length=2_000,
            description="Measurements, as for 'gatemark shadow push'.",
        ),
    ]
    environment: Environment = PRODUCTION


def push_pairs(
    workspace: Workspace,
    ref: VersionRef,
    spans: Sequence[ShadowPairs],
    *,
    actor: str,
    environment: str = PRODUCTION,
) -> tuple[CommandResult, ...]:
    """Add spans, oldest first; if one is refused, none is added."""
    commands = [
        PushShadow(
            actor=actor,
            asset=ref.asset,
            version=ref.version,
            environment=environment,
            pairs=one,
        )
        for one in sorted(spans, key=lambda one: one.start)
    ]
    for command in commands:
        preview(workspace, command)
    return tuple(act(workspace, command) for command in commands)


def read_pairs(path: str) -> list[ShadowPairs]:
    """Read the spans of a JSON Lines file."""
    found, problems = [], []
    for number, line in enumerate(read_small_file(path, MAX_BYTES).splitlines(), start=1):
        if line.strip():
            try:
                found.append(pairs_of(msgspec.json.decode(line)))
            except (msgspec.MsgspecError, InvalidValueError, UnicodeDecodeError) as error:
                problems.append(f"{path}:{number}: {error}")
    if problems:
        raise BadInputError(tuple(problems))
    if not found:
        raise BadInputError(f"{path}: has no measurements")
    return found


def pairs_of(record: Mapping[str, object]) -> ShadowPairs:
    """Return one span as the ledger stores it."""
    line = msgspec.convert(record, ShadowLine)
    value = msgspec.structs.asdict(line)
    for name in ("errors", "latency_ms", "cost"):
        numbers = value.pop(name)
        if numbers is not None:
            value |= {f"candidate_{name}": numbers.candidate, f"live_{name}": numbers.live}
    return msgspec.convert(value, ShadowPairs)
