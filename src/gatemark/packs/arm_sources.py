"""What sits an exam: live targets built from a pack, or answers that were recorded earlier."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.result import AssetRef, Result
from gatemark.evidence.reading_options import Limits
from gatemark.evidence.source import inspect_source, read_blocks, split_sources
from gatemark.packs.pack import Pack
from gatemark.packs.sample_lines import read_sample_lines
from gatemark.targets.port import Target
from gatemark.targets.recorded import RecordedTarget, recording_from_samples
from gatemark.targets.spec import TargetSpec, build, parse_spec
from gatemark.workspace import Workspace

RECORDED = TargetSpec(recorded="a stored result")


class ArmSource(msgspec.Struct, frozen=True):
    """One arm: how to get the target for a suite, its limits, and what identifies it.

    ``reference`` is set when the arm was identified before, by an earlier result.
    """

    target_for: Callable[[str], Target]
    targets: tuple[Target, ...]
    spec: TargetSpec
    identity: Mapping[str, Any]
    reference: AssetRef | None = None

    async def close(self) -> None:
        """Let go of processes, connections and modules."""
        for target in self.targets:
            await target.close()


def open_arm(pack: Pack, arm: str, raw: Mapping[str, Any], folder: Path, jobs: int) -> ArmSource:
    """The arm that a pack describes."""
    spec = parse_spec(raw, f"{pack.name}: targets.{arm}")
    target = build(
        spec,
        folder,
        clock=time.monotonic,
        environ=os.environ,
        concurrency=jobs,
        open_recording=open_recording,
    )
    return ArmSource(
        target_for=lambda _suite: target,
        targets=(target,),
        spec=spec,
        identity=target.identity(),
    )


def reopen_arm(result: Result, arm: str, workspace: Workspace) -> ArmSource:
    """An arm of a stored result, answering from its evidence; refuses a result without it."""
    reference = result.candidate if arm == "candidate" else result.baseline
    stored = {blob.name: blob for blob in result.blobs if blob.name.endswith(f".{arm}.jsonl")}
    if not stored or reference is None:
        raise UsageError(f"result {result.id} holds no answers of a {arm}")
    targets = {}
    for name, blob in stored.items():
        rows = read_sample_lines(workspace.blobs.get(blob.digest), name)
        targets[name.removesuffix(f".{arm}.jsonl")] = RecordedTarget(
            recording_from_samples(rows), digest=blob.digest
        )

    def target_for(suite: str) -> Target:
        if suite not in targets:
            raise UsageError(f"result {result.id} holds no answers to suite {suite!r}")
        return targets[suite]

    identity = {name: blob.digest for name, blob in stored.items()}
    return ArmSource(
        target_for=target_for,
        targets=tuple(targets.values()),
        spec=RECORDED,
        identity=identity,
        reference=reference,
    )


def open_recording(path: Path) -> tuple[dict[tuple[str, int], Any], str]:
    """Recorded samples of a file, plain or packed."""
    source = inspect_source(str(path))
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    blocks = []
    for block in read_blocks(shard, Limits()):
        if block.overlong:
            raise BadInputError(f"{path}: has a line that is too long")
        blocks.append(block.data)
    data = b"".join(blocks)
    return recording_from_samples(read_sample_lines(data, str(path))), digest_bytes(data)
