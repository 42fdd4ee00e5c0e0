"""Run the guard-overhead exam: two arm files in, the exam's report and the evidence account out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.core.measurement import Evidence, EvidenceFile
from gatemark.core.progress import Progress
from gatemark.evidence.exam import ExamOutcome, ExamRun
from gatemark.evidence.run_exam import ExamJob, build_exam
from gatemark.evidence.source import STDIN, ReadingChoices, digest_source, inspect_source
from gatemark.evidence.strict_json import parse_strictly
from gatemark.exams.overhead.arms import read_arm

if TYPE_CHECKING:
    from gatemark.exams.overhead.arms import ArmFile, Role
    from gatemark.exams.overhead.costs import Costs

MAX_COSTS_BYTES: Final = 1024 * 1024 * 1024
MAX_COSTS_DEPTH: Final = 16
FOLD_BATCH: Final = 4_096
ARM_FILES: Final = ("bare", "guarded", "noise", "costs")
"""What a file may be to the exam, in the order of the account."""


def examine_overhead(
    paths: Mapping[str, str | None],
    options: Mapping[str, Any],
    choices: ReadingChoices,
    *,
    on_progress: Progress | None = None,
) -> ExamOutcome:
    """Run the exam over ``bare`` and ``guarded``, and ``noise`` and ``costs`` where given.

    ``noise`` is a second bare run, ``costs`` what the runner recorded about time and memory. An
    arm whose file is not there leaves everything unmeasured, with the reason.
    """
    unknown = set(paths) - set(ARM_FILES)
    if unknown:
        raise UsageError(f"overhead knows no file called {sorted(unknown)[0]!r}")
    if paths.get("bare") is None and paths.get("guarded") is None:
        raise UsageError("give --bare and --guarded")
    if STDIN in paths.values():
        raise UsageError("arms must be files: they are read twice where something is wrong")
    has_noise = paths.get("noise") is not None
    exam: Any = build_exam(ExamJob("overhead", {**options, "noise": has_noise}, choices))
    tick = _ticker(paths, on_progress)
    roles: tuple[Role, ...] = ("bare", "guarded", "noise") if has_noise else ("bare", "guarded")
    arms = {role: read_arm(role, paths.get(role), choices, tick) for role in roles}
    begun, costs_file = _begun(exam, arms, paths.get("costs"))
    state = exam.zero(0)
    for start in range(0, len(begun.rows), FOLD_BATCH):
        state = exam.step(state, begun.rows[start : start + FOLD_BATCH])
    report = exam.finish(exam.merge(begun.state, state))
    return ExamOutcome(exam, report, _account(arms, begun.pairing, costs_file, choices))


def examine_arms(run: ExamRun) -> ExamOutcome:
    """Run the exam over the files of a run."""
    return examine_overhead(dict(run.files), run.options, run.reading, on_progress=run.on_progress)


def _begun(
    exam: Any, arms: Mapping[Role, ArmFile], costs_path: str | None
) -> tuple[Any, EvidenceFile | None]:
    # Loaded here, so that every other command lives on without this plugin.
    from gatemark.exams.overhead.document import CostsPart  # noqa: PLC0415

    if costs_path is None:
        return exam.begin(arms), None
    source = inspect_source(costs_path)
    file = digest_source(source)
    part = CostsPart(file=Path(costs_path).name, digest=file.digest)
    return exam.begin(arms, read_costs(costs_path), part), file


def read_costs(path: str) -> Costs:
    """The file of costs, or where it is wrong."""
    from gatemark.exams.overhead.costs import Costs  # noqa: PLC0415

    source = inspect_source(path)
    if source.byte_count > MAX_COSTS_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_COSTS_BYTES} bytes")
    data = Path(path).read_bytes()
    try:
        costs = msgspec.json.decode(data, type=Costs)
    except (msgspec.MsgspecError, RecursionError, InvalidValueError) as error:
        raise BadInputError(f"{path}: {error}") from error
    # Every key brings one colon, so equal counts leave no room for a repeated key.
    if b"\\" in data or data.count(b":") != msgspec.json.encode(costs).count(b":"):
        _, problems = parse_strictly(data, max_depth=MAX_COSTS_DEPTH)
        if problems:
            raise BadInputError(tuple(f"{path}: {problem.message}" for problem in problems))
    return costs


def _account(
    arms: Mapping[Role, ArmFile],
    pairing: Any,
    costs_file: EvidenceFile | None,
    choices: ReadingChoices,
) -> Evidence:
    accepted = sum(len(arm.ids) + (arm.meta is not None) for arm in arms.values())
    rejected = sum(arm.hole_count for arm in arms.values())
    # A refused line and an extra copy are counted as such, not once more as missing.
    lost = rejected + pairing.duplicate_count
    missing = pairing.expected_count - pairing.paired_count
    return Evidence(
        received=accepted + rejected,
        accepted=accepted,
        rejected=rejected,
        usable=pairing.paired_count,
        missing=max(0, missing - lost),
        expected=pairing.expected_count or None,
        files=(
            *(
                EvidenceFile(arm.name, arm.digest, arm.byte_count)
                for arm in arms.values()
                if arm.digest is not None
            ),
            *(() if costs_file is None else (costs_file,)),
        ),
        duplicates=pairing.duplicate_count,
        checks={
            "duplicate_keys": choices.checks()["duplicate_keys"],
            "windows": "compared one by one",
        },
    )


def _ticker(
    paths: Mapping[str, str | None], on_progress: Progress | None
) -> Callable[[int], None] | None:
    if on_progress is None:
        return None
    files = [Path(path) for role, path in paths.items() if path is not None and role != "costs"]
    total = sum(file.stat().st_size for file in files if file.is_file())
    done = 0

    def tick(byte_count: int) -> None:
        nonlocal done
        done = min(total, done + byte_count)
        on_progress(done, total)

    return tick
