"""``gatemark gate``: judge the recorded evidence of a result by another pack.

The run is opened from the result instead of the pack's targets: every arm and judge answers as it
did. From there on it is answered, judged and sealed like any other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gatemark.core.canonical import digest
from gatemark.core.policy import Waiver
from gatemark.core.result import Result, answer_time_of
from gatemark.packs.arms import ArmSource, reopen_arm
from gatemark.packs.evidence_files import find_stored_evidence
from gatemark.packs.graders import RecordedGraders
from gatemark.packs.kept_targets import name_answered
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.origin import BASELINE_CHOSEN, JUDGED_AGAIN, read_reused
from gatemark.packs.pack_file import BASELINE, CANDIDATE, OpenPack, open_pack
from gatemark.packs.run import Claims, Run
from gatemark.packs.run_pack import judge_and_seal, run_exams
from gatemark.packs.same_items import refuse_other_items
from gatemark.packs.session import Session, ask_arms, make_answered_run
from gatemark.workspace import Workspace


def gate_result(
    workspace: Workspace, reference: str, path: str, *, waivers: Sequence[Waiver] = ()
) -> Result:
    """Judge the recorded evidence of a result by another pack, without calling any target."""
    started_at = workspace.clock()
    earlier = workspace.citable_result(reference)
    opened = open_pack(path)
    refuse_other_items(earlier, opened)
    arms = {}
    if opened.pack.targets is not None:
        arms[CANDIDATE] = reopen_arm(earlier, CANDIDATE, workspace)
        if opened.pack.has_baseline:
            arms[BASELINE] = reopen_arm(earlier, BASELINE, workspace)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        files = find_stored_evidence(opened, earlier, workspace.blobs, Path(folder))
        run = Run(
            opened=opened,
            started_at=started_at,
            exams=run_exams(workspace, opened, files),
            limit=read_limit(earlier),
            waivers=tuple(waivers),
            claims=_repeat_claims(earlier, opened, arms),
        )
        session = Session(arms, RecordedGraders(earlier, workspace.blobs))
        asked = ask_arms(run, session, now=workspace.clock)
        answered = make_answered_run(run, asked)
        return judge_and_seal(workspace, answered, asked)


def _repeat_claims(earlier: Result, opened: OpenPack, arms: Mapping[str, ArmSource]) -> Claims:
    """Return what the result said about its evidence, which judging again does not change."""
    is_own_pack = earlier.pack.digest == digest(opened.pack)
    said = {CANDIDATE: earlier.candidate, BASELINE: earlier.baseline}
    return Claims(
        names={
            arm: version
            for arm, version in said.items()
            if version is not None and name_answered(arm) in earlier.runtime
            if arm in arms or arm == CANDIDATE
        },
        baseline_how=earlier.runtime.get(BASELINE_CHOSEN) if BASELINE in arms else None,
        earlier_time=answer_time_of(earlier),
        earlier_reuse=read_reused(earlier),
        # Judged by its own pack, a result gets its own id again.
        judged_again=earlier.runtime.get(JUDGED_AGAIN) if is_own_pack else earlier.id,
    )
