"""``gatemark lint``: read the pack, check what it names, then check the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from gatemark.core.errors import GatemarkError
from gatemark.evidence.settings_file import place_in, settings_text
from gatemark.packs.exam_suites import check_exam_suite
from gatemark.packs.graders import find_judge_task
from gatemark.packs.labelled_answers import read_labels
from gatemark.packs.lint.data import find_data_warnings
from gatemark.packs.lint.report import LintReport, LintWarning
from gatemark.packs.lint.rules import find_unsatisfiable_rules
from gatemark.packs.lint.sizes import find_margin_warnings, measure_discordance, predict_verdicts
from gatemark.packs.lint.targets import check_target
from gatemark.packs.pack import Pack
from gatemark.packs.pack_data import load_snapshot, load_snapshots
from gatemark.packs.pack_file import OpenPack, read_pack_file
from gatemark.packs.policy import check_waivers_and_rules
from gatemark.packs.questions import make_calls
from gatemark.packs.suite_plugins import build_scorer, find_suite_plugin
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.statistics.preference import MIN_DECISIVE
from gatemark.workspace import Workspace

DEFAULT_GATE: Final = 0.6
Check = Callable[[], object]


def lint_pack(
    path: str, *, discordance: float | None = None, workspace: Workspace | None = None
) -> LintReport:
    """Return everything that can be said about a pack without calling its targets.

    ``discordance`` is the share of items on which similar models differ, if known; otherwise the
    last result of this pack in the workspace is used.
    """
    pack, folder = read_pack_file(path), Path(path).resolve().parent
    text = settings_text(path)

    def placed(found: LintWarning) -> str:
        return f"{path}:{place_in(text, found.path)[0]}: {found.message}"

    errors = [
        line if line.startswith(path) else placed(LintWarning(where, line))
        for where, check in _list_checks(pack, folder)
        for line in _collect_problems(check)
    ]
    warnings = [placed(found) for found in _find_pack_warnings(pack)]
    foreseen: tuple[str, ...] = ()
    if not errors:
        opened = OpenPack(pack, folder, load_snapshots(pack, folder))
        found = (
            *find_margin_warnings(opened),
            *find_unsatisfiable_rules(opened),
            *_find_unqualifiable(opened),
        )
        warnings.extend(map(placed, found))
        measured = None if workspace is None else measure_discordance(workspace, pack)
        foreseen = tuple(predict_verdicts(opened, discordance, measured))
        warnings.extend(
            placed(one) if isinstance(one, LintWarning) else one
            for one in find_data_warnings(opened, Path(path).parent)
        )
    return LintReport(path, tuple(errors), tuple(warnings), foreseen)


def _collect_problems(check: Check) -> tuple[str, ...]:
    try:
        check()
    except GatemarkError as error:
        return error.lines()
    return ()


def _list_checks(pack: Pack, folder: Path) -> Iterator[tuple[str, Check]]:
    """Yield each check with the part of the pack that it covers."""
    if pack.targets is not None:
        arms = {"candidate": pack.targets.candidate, "baseline": pack.targets.baseline}
        for arm, raw in arms.items():
            if raw != "none":
                yield (
                    f"$.targets.{arm}",
                    partial(check_target, raw, f"targets.{arm}", folder),
                )
    for cell in pack.cells():
        axis, value = list(cell.values.items())[-1]
        yield (
            f"$.matrix.{axis}.{value}",
            partial(check_target, cell.target, f"matrix {cell.name}", folder),
        )
    for name, judge in pack.judges.items():
        place = f"judges.{name}.target"
        yield f"$.{place}", partial(check_target, judge.target, place, folder)
    yield (
        "$.rules",
        partial(
            check_waivers_and_rules, pack, has_baseline=pack.has_baseline, limit=None, waivers=()
        ),
    )
    for number, suite in enumerate(pack.suites):
        where = f"$.suites[{number}]"
        if suite.evidence is not None:
            yield where, partial(check_exam_suite, suite, folder)
            continue
        yield where, partial(_check_suite, suite, folder)
        if suite.dataset is not None:
            yield f"{where}.dataset", partial(load_snapshot, suite, folder)
        if suite.template is not None:
            yield f"{where}.template", partial(_check_template, suite, folder)
        if suite.judge is not None:
            named = "options" if suite.scorer is None else "scorer"
            yield f"{where}.{named}", partial(_check_judge, pack, suite, folder)


def _check_suite(suite: SuiteSpec, folder: Path) -> None:
    plugin = find_suite_plugin(suite)
    if suite.source is None and plugin.scorer is not None:
        build_scorer(suite, folder)


def _check_template(suite: SuiteSpec, folder: Path) -> None:
    make_calls(suite, load_snapshot(suite, folder).rows)


def _check_judge(pack: Pack, suite: SuiteSpec, folder: Path) -> None:
    labels = pack.judges[str(suite.judge)].labels
    read_labels(folder / labels, labels, find_judge_task(suite))


def _find_pack_warnings(pack: Pack) -> Iterator[LintWarning]:
    """Yield warnings that the pack file alone gives rise to."""
    for name, judge in pack.judges.items():
        if judge.qualification_min < DEFAULT_GATE:
            yield LintWarning(
                f"$.judges.{name}.qualification_min",
                f"judge {name}: qualification_min {judge.qualification_min:g} is below "
                f"{DEFAULT_GATE:g}, where agreement with people is called moderate at best",
            )
    if not pack.has_baseline and all(s.baseline_evidence in (None, "none") for s in pack.suites):
        yield LintWarning(
            "$.targets.baseline",
            "there is no baseline: no regression can be judged; name one under targets.baseline",
        )
    yield from _find_same_targets(pack)
    for number, suite in enumerate(pack.suites):
        where = f"$.suites[{number}]"
        if suite.id in pack.required_suites and suite.min is None:
            yield LintWarning(
                where, f"suite {suite.id} is required but has no floor (min); add min, such as 0.9"
            )
        if suite.min is not None and suite.id not in pack.required_suites and not suite.severity:
            yield LintWarning(
                f"{where}.min",
                f"suite {suite.id}: its floor {suite.min:g} only warns, because the suite is not "
                "required; add it to required_suites, or set severity: block (or warn)",
            )
        if suite.id in pack.required_suites and suite.severity == "warn":
            yield LintWarning(
                f"{where}.severity",
                f"suite {suite.id} is required: severity: warn has no effect on its floor; "
                "remove it, or take the suite out of required_suites",
            )
        is_deciding = suite.id in pack.required_suites or suite.comparing_judge is not None
        if suite.weight == 0 and not is_deciding:
            yield LintWarning(
                f"{where}.weight",
                f"suite {suite.id} has weight 0 and is not required: it adds nothing to the bench "
                "score, and only its errors, its floor and its drop count",
            )


def _find_same_targets(pack: Pack) -> Iterator[LintWarning]:
    """Yield candidates that are the same target as the baseline or as another candidate."""
    if pack.targets is None:
        return
    cells = pack.cells()
    if not cells and pack.targets.candidate == pack.targets.baseline:
        yield LintWarning(
            "$.targets.baseline",
            "candidate and baseline are the same target, so nothing can regress; "
            "name what serves now as the baseline",
        )
    for number, cell in enumerate(cells):
        axis, value = list(cell.values.items())[-1]
        if cell.target == pack.targets.baseline:
            yield LintWarning(
                f"$.matrix.{axis}.{value}",
                f"matrix {cell.name} is the same target as the baseline, so it cannot regress",
            )
        twins = [other.name for other in cells[:number] if other.target == cell.target]
        if twins:
            yield LintWarning(
                f"$.matrix.{axis}.{value}",
                f"matrix {cell.name} is the same target as {twins[0]}; one of them is enough",
            )


def _find_unqualifiable(opened: OpenPack) -> Iterator[LintWarning]:
    """Yield judges with too few labelled answers, or too few pairs to compare."""
    for number, suite in enumerate(opened.pack.suites):
        if suite.judge is None:
            continue
        count = len(opened.snapshots[suite.id].rows)
        if suite.comparing_judge is not None and count < MIN_DECISIVE:
            yield LintWarning(
                f"$.suites[{number}]",
                f"suite {suite.id} can never pass: it compares {count} items, and at least "
                f"{MIN_DECISIVE} must be decisive; add items to {suite.source}",
            )
        judge = opened.pack.judges[suite.judge]
        labelled = read_labels(opened.folder / judge.labels, judge.labels, find_judge_task(suite))
        if len(labelled.items) < judge.min_items:
            yield LintWarning(
                f"$.judges.{suite.judge}",
                f"judge {suite.judge} can never gate suite {suite.id}: people labelled "
                f"{len(labelled.items)} answers, min_items is {judge.min_items}",
            )
