"""Open an arm of a pack: a target to call, a recording, or the evidence of an earlier result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.result import AssetRef, Result
from gatemark.packs.answers import ItemKey
from gatemark.packs.conditions import IN_PROCESS, ISOLATED, read_conditions
from gatemark.packs.hidden_paths import list_hidden_paths
from gatemark.packs.kept_targets import TARGETS_BLOB, read_targets
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.recorded_scores import RecordedScores, read_recorded_scores
from gatemark.packs.recording_conditions import find_recording_conditions
from gatemark.packs.recordings import read_recorded_rows
from gatemark.packs.sample_lines import read_sample_lines
from gatemark.targets.build import make_target
from gatemark.targets.identity import describe_target, find_changed_files
from gatemark.targets.port import CallError, Reply, Target
from gatemark.targets.python_worker import PythonWorkerTarget
from gatemark.targets.recorded import RecordedTarget, build_recording
from gatemark.targets.spec import TargetSpec, parse_spec
from gatemark.workspace import Workspace

RECORDED = TargetSpec(recorded="a stored result")


class ArmSource(msgspec.Struct, frozen=True):
    """One arm: how to open its target for a suite, its limits, and its identity.

    ``reference`` is set if an earlier result already identified the arm, and ``answered`` is what
    that result keeps of what answered.
    """

    target_for: Callable[[str], Target]
    targets: tuple[Target, ...]
    spec: TargetSpec
    identity: Mapping[str, object]
    reference: AssetRef | None = None
    answered: Mapping[str, object] | None = None
    conditions: dict[str, str] = {}
    scores_for: Callable[[str], Mapping[ItemKey, RecordedScores]] = lambda _suite: {}
    """Scores from other tools, by suite; a live target has none."""
    changed_files: Callable[[], tuple[str, ...]] = tuple
    """Identity files that changed since the arm was opened."""

    def packages(self) -> dict[str, str]:
        """Return the versions of the packages that the arm's own processes loaded."""
        workers = [target for target in self.targets if isinstance(target, PythonWorkerTarget)]
        return {name: found for worker in workers for name, found in worker.packages.items()}

    async def close(self) -> None:
        """Close processes, connections and modules."""
        for target in self.targets:
            await target.close()


def open_arm(
    opened: OpenPack,
    arm: str,
    raw: Mapping[str, object],
    *,
    jobs: int,
    private: Sequence[Path],
    other: object = None,
) -> ArmSource:
    """Open an arm of a pack; an isolated one cannot read the data or what is ``private``.

    ``other`` is the arm it is compared with, if the pack does not name it.
    """
    pack, folder = opened.pack, opened.folder
    spec = parse_spec(raw, f"{pack.name}: targets.{arm}")
    scores: dict[ItemKey, RecordedScores] = {}

    conditions: dict[str, str] = {}

    def open_scored(path: Path) -> tuple[dict[tuple[str, int], Reply | CallError], str]:
        rows, name = read_recorded_rows(path)
        scores.update(read_recorded_scores(rows))
        found = find_recording_conditions(opened, rows)
        conditions.update({condition: f"{arm}: {why}" for condition, why in found.items()})
        return build_recording(rows), name

    target = make_target(
        spec,
        folder,
        clock=time.monotonic,
        environ=os.environ,
        concurrency=jobs,
        open_recording=open_scored,
        hidden=list_hidden_paths(pack, folder, private, other),
    )
    identity = describe_target(spec, target, folder)
    return ArmSource(
        target_for=lambda _suite: target,
        targets=(target,),
        spec=spec,
        identity=identity,
        conditions={**conditions, **_find_conditions(arm, spec, target)},
        scores_for=lambda _suite: scores,
        changed_files=lambda: find_changed_files(spec, target, folder, identity),
    )


def _find_conditions(arm: str, spec: TargetSpec, target: Target) -> dict[str, str]:
    """Return the conditions that follow from how the arm is called."""
    if spec.in_process:
        return {
            IN_PROCESS: f"the {arm} ran inside Gatemark (in_process: true), where it can reach "
            "labels and results; leave in_process out to let it pass"
        }
    if isinstance(target, PythonWorkerTarget) and spec.isolate and not target.is_isolated:
        return {
            ISOLATED: f"the {arm} asked for isolate: true and this system has no Landlock, "
            "so it ran in a process of its own without further limits"
        }
    return {}


def reopen_arm(result: Result, arm: str, workspace: Workspace) -> ArmSource:
    """Return an arm of a stored result that answers from its evidence; raise if it has none."""
    reference = result.candidate if arm == "candidate" else result.baseline
    stored = {blob.name: blob for blob in result.blobs if blob.name.endswith(f".{arm}.jsonl")}
    if not stored or reference is None:
        raise UsageError(f"result {result.id} holds no answers of a {arm}")
    targets, scores = {}, {}
    for name, blob in stored.items():
        rows = read_sample_lines(workspace.blobs.get(blob.digest), name)
        suite_id = name.removesuffix(f".{arm}.jsonl")
        targets[suite_id] = RecordedTarget(build_recording(rows), digest=blob.digest)
        scores[suite_id] = read_recorded_scores(rows, sealed=True)

    def target_for(suite: str) -> Target:
        if suite not in targets:
            raise UsageError(f"result {result.id} holds no answers to suite {suite!r}")
        return targets[suite]

    identity = {name: blob.digest for name, blob in stored.items()}
    kept = [blob.digest for blob in result.blobs if blob.name == TARGETS_BLOB]
    answered = read_targets(workspace.blobs.get(kept[0])).get(arm) if kept else None
    return ArmSource(
        target_for=target_for,
        targets=tuple(targets.values()),
        spec=RECORDED,
        identity=identity,
        reference=reference,
        answered=answered,
        conditions=read_conditions(result),
        scores_for=lambda suite: scores.get(suite, {}),
    )
