"""Run the guard-overhead exam over the files of two arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Evidence, EvidenceFile
from gatemark.core.progress import Progress
from gatemark.evidence.exam import ExamOutcome
from gatemark.evidence.exam_options import checked_options
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import STDIN, digest_source, inspect_source
from gatemark.plugins.overhead.arms import ArmFile, Role, read_arm
from gatemark.plugins.overhead.costs import read_costs
from gatemark.plugins.overhead.document import CostsPart
from gatemark.plugins.overhead.options import OverheadOptions
from gatemark.plugins.overhead.overhead_exam import OverheadExam
from gatemark.plugins.overhead.pairing import WindowPairing
from gatemark.plugins.overhead.window_numbers import SECOND_RUNS

FOLD_BATCH: Final = 4_096
FILES: Final = ("bare", "guarded", "noise", "repeat", "costs")
"""The roles of files, in the order of the evidence account."""


def examine_overhead(
    paths: Mapping[str, str | None],
    options: Mapping[str, object],
    choices: ReadingChoices,
    *,
    on_progress: Progress | None = None,
) -> ExamOutcome:
    """Run the exam over ``bare`` and ``guarded``, and the other roles if given.

    ``noise`` is a second bare run, ``repeat`` a second guarded one, ``costs`` has recorded time and
    memory. Without an arm nothing is measured.
    """
    unknown = sorted(set(paths) - set(FILES))
    if unknown:
        raise UsageError(f"overhead: unknown file role {unknown[0]!r} (known: {', '.join(FILES)})")
    if paths.get("bare") is None and paths.get("guarded") is None:
        raise UsageError("give --bare and --guarded")
    if STDIN in paths.values():
        raise UsageError("arms must be files, not standard input: they may be read twice")
    second = [role for role in SECOND_RUNS if paths.get(role) is not None]
    given: dict[str, object] = {**options, **{role: role in second for role in SECOND_RUNS}}
    exam = OverheadExam(checked_options("overhead", given, OverheadOptions))
    tick = _make_ticker(paths, on_progress)
    roles: tuple[Role, ...] = ("bare", "guarded", *second)
    arms = {role: read_arm(role, paths.get(role), choices, tick) for role in roles}
    costs, part, costs_file = None, None, None
    if path := paths.get("costs"):
        costs_file = digest_source(inspect_source(path))
        costs, part = read_costs(path), CostsPart(file=Path(path).name, digest=costs_file.digest)
    compared = exam.begin(arms, costs, part)
    state = exam.zero(0)
    for start in range(0, len(compared.rows), FOLD_BATCH):
        state = exam.step(state, compared.rows[start : start + FOLD_BATCH])
    report = exam.finish(exam.merge(compared.state, state))
    return ExamOutcome(exam, report, _count_evidence(arms, compared.pairing, costs_file, choices))


def _count_evidence(
    arms: Mapping[Role, ArmFile],
    pairing: WindowPairing,
    costs_file: EvidenceFile | None,
    choices: ReadingChoices,
) -> Evidence:
    accepted = sum(len(arm.ids) + (arm.meta is not None) for arm in arms.values())
    rejected = sum(arm.hole_count for arm in arms.values())
    # A refused line or a duplicate is counted as such, not also as missing.
    lost = rejected + pairing.duplicate_count
    missing = pairing.expected_count - pairing.paired_count
    files = [
        EvidenceFile(arm.name, arm.digest, arm.byte_count)
        for arm in arms.values()
        if arm.digest is not None
    ]
    return Evidence(
        received=accepted + rejected,
        accepted=accepted,
        rejected=rejected,
        usable=pairing.paired_count,
        missing=max(0, missing - lost),
        expected=pairing.expected_count or None,
        files=(*files, costs_file) if costs_file else tuple(files),
        duplicates=pairing.duplicate_count,
        checks={
            "duplicate_keys": choices.checks()["duplicate_keys"],
            "windows": "compared one by one",
        },
    )


def _make_ticker(
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
