"""The journey of ``gatemark run`` and ``gatemark gate``: answer, score, judge, seal.

(1) Read the pack and freeze its data. (2) Open both arms. (3) Let them answer, with a journal that
survives a crash. (4) Judge. (5) Seal and keep. Stopping before (5) leaves only the journal.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.change import AssetRef
from gatemark.core.errors import BadInputError, IncomparableError
from gatemark.core.evidence import EvidenceFile
from gatemark.core.policy import Waiver
from gatemark.core.result import Blob, Cost, Result
from gatemark.flow.arm_sources import ArmSource, open_arm, reopen_arm
from gatemark.flow.house import House
from gatemark.flow.pack_arms import ArmAnswers, OnProgress, answer_all, scorer_of
from gatemark.flow.pack_data import OpenPack, open_pack
from gatemark.flow.pack_judge import judge_pack, result_of
from gatemark.flow.rescore_pack import kept_definition
from gatemark.targets.journal import Journal

ARMS = ("candidate", "baseline")
MAX_LISTED = 20
_MEDIA_TYPES = {".json": "application/json", ".jsonl": "application/jsonl"}


class RunChoices(msgspec.Struct, frozen=True):
    """How a user wants a pack to run."""

    jobs: int = 1
    resume: bool = False
    limit: int | None = None
    candidate: Mapping[str, Any] | None = None
    baseline: Mapping[str, Any] | str | None = None
    names: Mapping[str, AssetRef] = {}
    """What an arm is known as, where whoever runs the pack vouches for it."""


def run_pack(
    house: House,
    path: str,
    choices: RunChoices,
    *,
    waivers: Sequence[Waiver] = (),
    on_progress: OnProgress | None = None,
) -> Result:
    """Run a pack's targets and seal what came out."""
    started_at = house.clock()
    opened = open_pack(path)
    arms = _open_arms(house, opened, choices)
    key = _run_key(opened, arms)
    journals = house.run_folder(key)
    if not choices.resume:
        _forget(journals)
    told = asyncio.run(_answer_arms(opened, arms, choices, journals, on_progress))
    result = _sealed(
        house, opened, arms, told, waivers=waivers, started_at=started_at, names=choices.names
    )
    _forget(journals)
    return result


def rejudge(house: House, reference: str, path: str, *, waivers: Sequence[Waiver] = ()) -> Result:
    """Judge the recorded evidence of a result by another pack, without calling any target."""
    started_at = house.clock()
    earlier = house.existing_results().get(reference)
    opened = open_pack(path)
    _refuse_other_data(earlier, opened)
    arms = {"candidate": reopen_arm(earlier, "candidate", house)}
    if opened.pack.targets.baseline != "none":
        arms["baseline"] = reopen_arm(earlier, "baseline", house)
    told = asyncio.run(_answer_arms(opened, arms, RunChoices(), None, None))
    return _sealed(house, opened, arms, told, waivers=waivers, started_at=started_at)


def _forget(journals: Path) -> None:
    """Remove the journals of a run; one that stayed would answer for a run that asked anew."""
    if not journals.exists():
        return
    try:
        shutil.rmtree(journals)
    except OSError as error:
        raise BadInputError(f"{journals}: cannot be removed: {error.strerror or error}") from error


def _refuse_other_data(earlier: Result, opened: OpenPack) -> None:
    now = set(opened.references)
    before = set(earlier.snapshots)
    if now == before:
        return
    only_now = [f"only in the pack: {name}" for name in sorted(now - before)]
    only_before = [f"only in the result: {name}" for name in sorted(before - now)]
    raise IncomparableError(
        f"result {earlier.id} was made on other data than the pack names",
        tuple((only_now + only_before)[:MAX_LISTED]),
    )


def _open_arms(house: House, opened: OpenPack, choices: RunChoices) -> dict[str, ArmSource]:
    pack, folder = opened.pack, opened.folder
    raw = choices.candidate or pack.targets.candidate
    arms = {"candidate": open_arm(pack, "candidate", raw, folder, choices.jobs)}
    wanted = choices.baseline or pack.targets.baseline
    if isinstance(wanted, str) and wanted != "none":
        earlier = house.existing_results().get(wanted)
        _refuse_other_data(earlier, opened)
        arms["baseline"] = reopen_arm(earlier, "candidate", house)
    elif not isinstance(wanted, str):
        arms["baseline"] = open_arm(pack, "baseline", wanted, folder, choices.jobs)
    return arms


def _scoring(opened: OpenPack) -> dict[str, dict[str, str]]:
    answering = [suite for suite in opened.pack.suites if suite.source is None]
    return {suite.id: scorer_of(suite, opened.folder)[1] for suite in answering}


def _run_key(opened: OpenPack, arms: Mapping[str, ArmSource]) -> str:
    """What a run is a run of; a resumed run must have the same."""
    return digest(
        {
            "pack": digest(opened.pack),
            "snapshots": list(opened.references),
            "arms": {name: dict(arm.identity) for name, arm in arms.items()},
            "scoring": _scoring(opened),
        }
    )


async def _answer_arms(
    opened: OpenPack,
    arms: Mapping[str, ArmSource],
    choices: RunChoices,
    journals: Path | None,
    on_progress: OnProgress | None,
) -> dict[str, ArmAnswers]:
    told = {}
    try:
        for name, arm in arms.items():
            journal = None
            if journals is not None:
                journals.mkdir(parents=True, exist_ok=True)
                journal = Journal(journals / f"{name}.journal", clock=time.monotonic)
            try:
                told[name] = await answer_all(
                    opened,
                    arm.target_for,
                    arm.spec,
                    journal,
                    jobs=choices.jobs,
                    clock=time.monotonic,
                    limit=choices.limit,
                    on_progress=_labelled(on_progress, name),
                )
            finally:
                if journal is not None:
                    journal.close()
    finally:
        for arm in arms.values():
            await arm.close()
    return told


def _labelled(on_progress: OnProgress | None, arm: str) -> OnProgress | None:
    if on_progress is None:
        return None
    return lambda suite, progress: on_progress(f"{arm} {suite}", progress)


def _sealed(
    house: House,
    opened: OpenPack,
    arms: Mapping[str, ArmSource],
    told: Mapping[str, ArmAnswers],
    *,
    waivers: Sequence[Waiver],
    started_at: datetime,
    names: Mapping[str, AssetRef] | None = None,
) -> Result:
    names = names or {}
    scoring = _scoring(opened)
    lines = {
        f"{suite}.{arm}.jsonl": data
        for arm, answers in told.items()
        for suite, data in answers.lines.items()
    }
    blobs = [Blob(name, digest_bytes(data), "application/jsonl") for name, data in lines.items()]
    files = [EvidenceFile(blob.name, blob.digest, len(lines[blob.name])) for blob in blobs]
    definition = kept_definition(opened)
    blobs += [
        Blob(name, digest_bytes(data), _MEDIA_TYPES[Path(name).suffix])
        for name, data in definition.items()
    ]
    finished_at = house.clock()
    judged = judge_pack(
        opened,
        told["candidate"].answers,
        told["baseline"].answers if "baseline" in told else None,
        files,
        waivers=waivers,
        now=finished_at,
    )
    references = {
        name: names.get(name)
        or arm.reference
        or AssetRef(
            id=f"{opened.pack.asset.name}/{name}",
            digest=_identity(arm, scoring),
        )
        for name, arm in arms.items()
    }
    costs = [answers.cost for answers in told.values()]
    result = result_of(
        opened,
        judged,
        house,
        candidate=references["candidate"],
        baseline=references.get("baseline"),
        blobs=blobs,
        runtime={**_git_state(opened.folder), **_models(told), **_identities(arms, names, scoring)},
        waivers=waivers,
        started_at=started_at,
        finished_at=finished_at,
        cost=Cost(
            calls=sum(answers.calls for answers in told.values()),
            money=None if None in costs else sum(cost or 0.0 for cost in costs),
        ),
    )
    for data in (*lines.values(), *definition.values()):
        house.blobs.put(data)
    house.results.append(result)
    return result


def _identity(arm: ArmSource, scoring: Mapping[str, Any]) -> str:
    return digest({"target": dict(arm.identity), "scoring": scoring})


def _identities(
    arms: Mapping[str, ArmSource], names: Mapping[str, AssetRef], scoring: Mapping[str, Any]
) -> dict[str, str]:
    """What answered, where somebody vouches that it is another thing."""
    return {f"target.{name}": _identity(arms[name], scoring) for name in names if name in arms}


def _models(told: Mapping[str, ArmAnswers]) -> dict[str, str]:
    return {f"model.{arm}": ", ".join(a.models) for arm, a in told.items() if a.models}


def _git_state(folder: Path) -> dict[str, str]:
    """The commit that a pack was run from, where there is one."""
    git = shutil.which("git")
    if git is None:
        return {}
    head = _git(git, folder, "rev-parse", "HEAD")
    if head is None:
        return {}
    dirty = _git(git, folder, "status", "--porcelain", "--untracked-files=no")
    return {"git.commit": head, "git.dirty": "unknown" if dirty is None else str(bool(dirty))}


def _git(git: str, folder: Path, *arguments: str) -> str | None:
    done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
        [git, "-C", str(folder), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None
