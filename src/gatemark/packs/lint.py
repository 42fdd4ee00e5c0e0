"""Looking a pack over: what would stop it, and what would make its verdict worthless."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule
from gatemark.evidence.source import inspect_source
from gatemark.gate.decide import COVERAGE
from gatemark.packs.answers import Answer, sample_of
from gatemark.packs.arms import (
    OpenPack,
    load_snapshot,
    load_snapshots,
    read_pack_file,
    scorer_of,
    suite_plugin,
)
from gatemark.packs.exam_suites import check_exam
from gatemark.packs.grading import judge_options
from gatemark.packs.judge import check_rules
from gatemark.packs.pack import Pack, ScorerSpec, SuiteSpec
from gatemark.packs.predict import blind_spots, predictions
from gatemark.packs.qualification import METRIC as LICENCE
from gatemark.packs.qualification import read_labels
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.scorers.scorer import Scorable, scorers
from gatemark.targets.spec import parse_spec

OF_THE_PACK = frozenset({"bench", "bench_baseline", "bench_delta", "bench_regression", COVERAGE})
OF_EVERY_SUITE = frozenset({"score", "baseline_score", "error_rate", "baseline_error_rate"})
AT_MOST_ONE = frozenset({"bench", "bench_baseline", "score", "baseline_score", COVERAGE})
PROBE = "probe"
TRIAL = "an answer that gives nothing away"
SURE = 0.5
"""A confidence for the made-up answers of a trial run."""


def unsatisfiable_rules(opened: OpenPack) -> Iterator[str]:
    """What a pack asks for in vain."""
    trials = {
        suite.id: _trial(opened, suite)
        for suite in opened.pack.suites
        if suite.evidence is None and suite.judge is None
    }
    for suite in opened.pack.suites:
        yield from _tags_nowhere(opened, suite)
        yield from _unscorable(opened, suite)
        score = trials.get(suite.id, {}).get("score")
        if score is not None and score.value is None:
            yield f"suite {suite.id} can never have a score: {score.reason}"
    for rule in opened.pack.rules:
        yield from _vain(opened, rule, trials)


def _trial(opened: OpenPack, suite: SuiteSpec) -> dict[str, Measurement]:
    """What a suite measures when every answer of both arms is right and says how sure it is."""
    rows = opened.snapshots[suite.id].rows
    asked = opened.pack.suite(suite.source) if suite.source is not None else suite
    answers = tuple(
        Answer(row.id, epoch, "", 1.0, None, confidence=SURE, cluster=row.cluster, tags=row.tags)
        for row in rows
        for epoch in range(1, asked.repeats + 1)
    )
    plugin = suite_plugin(suite)
    report = plugin.examine(
        ArmsEvidence(
            spec=suite,
            rows=rows,
            candidate=answers,
            baseline=answers if opened.pack.has_baseline else None,
            margin=opened.pack.regression_max,
            alpha=opened.pack.alpha,
        ),
        msgspec.convert(suite.options, plugin.options),
    )
    found = (report.score, report.baseline_score, *report.measurements)
    return {number.name: number for number in found}


def _tags_nowhere(opened: OpenPack, suite: SuiteSpec) -> Iterator[str]:
    if suite.evidence is not None:
        return
    tags = {tag for row in opened.snapshots[suite.id].rows for tag in row.tags}
    wanted = [*suite.slices, *([suite.sample.stratify] if suite.sample else [])]
    for tag in wanted:
        if tag is not None and tag not in tags:
            yield f"suite {suite.id}: no item carries the tag {tag!r}"


def _unscorable(opened: OpenPack, suite: SuiteSpec) -> Iterator[str]:
    """Items that no answer could be scored on."""
    if suite.dataset is None or suite.judge is not None:
        return
    given = suite.scorer.name if isinstance(suite.scorer, ScorerSpec) else suite.scorer
    name = given or str(suite_plugin(suite).scorer)
    rows = opened.snapshots[suite.id].rows
    if name == PROBE:
        score, _ = scorer_of(suite, opened.folder)
        tried = [score(Scorable(r.id, r.input, r.target, TRIAL, sample_of(r))) for r in rows]
        bad = [(row, found.reason) for row, found in zip(rows, tried, strict=True) if found.reason]
    elif scorers().get(name).needs_target:
        bad = [(row, f"{name} needs a target") for row in rows if row.target is None]
    else:
        bad = []
    if bad:
        row, reason = bad[0]
        yield (
            f"suite {suite.id}: {len(bad)} of {len(rows)} items can never be scored, "
            f"such as {row.id}: {reason}"
        )


def _vain(opened: OpenPack, rule: Rule, trials: dict[str, dict[str, Measurement]]) -> Iterator[str]:
    """Why a rule of the pack's own can never be judged, or never hold."""
    lanes = {suite.id for suite in opened.pack.suites}
    if rule.lane is None:
        known = OF_THE_PACK
        if rule.metric in OF_EVERY_SUITE:
            yield f"rule {rule.id}: {rule.metric} belongs to a suite, so the rule needs a lane"
            return
    elif rule.lane.partition("/")[0] not in lanes:
        yield f"rule {rule.id}: no suite is called {rule.lane!r}"
        return
    elif rule.lane not in trials:
        return
    else:
        known = frozenset({*OF_EVERY_SUITE, LICENCE, *trials[rule.lane]})
    if rule.metric not in known:
        names = ", ".join(sorted(known))
        yield f"rule {rule.id}: nothing measures {rule.metric!r} there (known: {names})"
    elif rule.metric in AT_MOST_ONE and (
        (rule.op == ">=" and rule.bound > 1) or (rule.op == ">" and rule.bound >= 1)
    ):
        yield f"rule {rule.id}: {rule.metric} {rule.op} {rule.bound:g} can never hold"


DEFAULT_GATE = 0.6


class LintReport(msgspec.Struct, frozen=True):
    """What is wrong with a pack, what is doubtful about it, and what it would decide."""

    pack: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    predictions: tuple[str, ...] = ()


def lint_pack(path: str, *, discordance: float | None = None) -> LintReport:
    """Everything that can be said about a pack without calling its targets.

    ``discordance`` is the share of items on which similar models differ, where it is known.
    """
    pack, folder = read_pack_file(path), Path(path).resolve().parent
    errors = [problem for check in _checks(pack, folder) for problem in _problems(check)]
    warnings = list(_impossible(pack))
    foreseen: tuple[str, ...] = ()
    if not errors:
        opened = OpenPack(pack, folder, load_snapshots(pack, folder))
        warnings.extend(blind_spots(opened))
        foreseen = tuple(predictions(opened, discordance))
        warnings.extend(unsatisfiable_rules(opened))
        warnings.extend(_unlicensable(opened))
    return LintReport(path, tuple(errors), tuple(warnings), foreseen)


def _problems(check: Callable[[], object]) -> tuple[str, ...]:
    try:
        check()
    except GatemarkError as error:
        return error.lines()
    return ()


def _checks(pack: Pack, folder: Path) -> Iterator[Callable[[], object]]:
    if pack.targets is not None:
        arms = {"candidate": pack.targets.candidate, "baseline": pack.targets.baseline}
        for arm, raw in arms.items():
            if raw != "none":
                yield partial(_check_target, raw, f"targets.{arm}", folder)
    for name, judge in pack.judges.items():
        yield partial(_check_target, judge.target, f"judges.{name}.target", folder)
    yield partial(check_rules, pack, has_baseline=pack.has_baseline, limit=None, waivers=())
    for suite in pack.suites:
        if suite.evidence is not None:
            yield partial(check_exam, suite, folder)
            continue
        yield partial(_check_suite, suite, folder)
        if suite.dataset is not None:
            yield partial(load_snapshot, suite, folder)
        if suite.judge is not None:
            yield partial(_check_judge, pack, suite, folder)


def _check_target(raw: object, place: str, folder: Path) -> None:
    """What a target names must be there; nothing of it is run."""
    spec = parse_spec(raw, place)
    if spec.recorded is not None:
        inspect_source(str(folder / spec.recorded), name=f"{place}: {spec.recorded}")
    if spec.command is not None and not _found_program(spec.command[0], folder):
        raise BadInputError(f"{place}: no program is called {spec.command[0]!r}")
    if spec.python is not None:
        module = spec.python.partition(":")[0]
        if module.endswith(".py") and not (folder / module).is_file():
            raise BadInputError(f"{place}: {module}: No such file")


def _found_program(name: str, folder: Path) -> bool:
    return shutil.which(name) is not None or shutil.which(str(folder / name)) is not None


def _check_suite(suite: SuiteSpec, folder: Path) -> None:
    plugin = suite_plugin(suite)
    if suite.source is None and plugin.scorer is not None:
        scorer_of(suite, folder)


def _check_judge(pack: Pack, suite: SuiteSpec, folder: Path) -> None:
    labels = pack.judges[str(suite.judge)].labels
    read_labels(folder / labels, labels, judge_options(suite))


def _impossible(pack: Pack) -> Iterator[str]:
    for name, judge in pack.judges.items():
        if judge.licence_min < DEFAULT_GATE:
            yield (
                f"judge {name}: licence_min {judge.licence_min:g} is below {DEFAULT_GATE:g}, "
                "where agreement with people is called moderate at best"
            )
    if not pack.has_baseline and all(s.baseline_evidence in (None, "none") for s in pack.suites):
        yield "there is no baseline: no regression can be judged"
    for suite in pack.suites:
        if suite.id in pack.required_suites and suite.min is None:
            yield f"suite {suite.id} is required but has no floor (min)"
        if suite.min is not None and suite.id not in pack.required_suites and not suite.severity:
            yield (
                f"suite {suite.id}: its floor {suite.min:g} only warns, because the suite is not "
                "required; add it to required_suites, or set severity: block (or warn)"
            )
        if suite.id in pack.required_suites and suite.severity == "warn":
            yield f"suite {suite.id} is required: severity: warn has no effect on its floor"
        if suite.weight == 0 and suite.id not in pack.required_suites:
            yield (
                f"suite {suite.id} has weight 0 and is not required: it adds nothing to the bench "
                "score, and only its errors, its floor and its drop count"
            )


def _unlicensable(opened: OpenPack) -> Iterator[str]:
    """Judges that too few answers were labelled for."""
    for suite in opened.pack.suites:
        if suite.judge is None:
            continue
        judge = opened.pack.judges[suite.judge]
        labelled = read_labels(opened.folder / judge.labels, judge.labels, judge_options(suite))
        if len(labelled.items) < judge.min_items:
            yield (
                f"judge {suite.judge} can never gate suite {suite.id}: people labelled "
                f"{len(labelled.items)} answers, min_items is {judge.min_items}"
            )
