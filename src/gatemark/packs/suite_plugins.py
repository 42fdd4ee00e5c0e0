"""The plugins of a suite: its kind, with its options, and its scorer."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gatemark.core.errors import UsageError
from gatemark.evidence.exam_suite import suites
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.suite import PackSuite
from gatemark.scorers.judge.grading import NAME as JUDGE_SCORER
from gatemark.scorers.scorer import ScoreFunction, scorers


def find_suite_plugin(spec: SuiteSpec) -> PackSuite:
    """Return the plugin of a suite kind."""
    plugin = suites().get(spec.kind)
    if not isinstance(plugin, PackSuite):
        raise UsageError(f"suite {spec.id}: kind {spec.kind!r} does not look at answers")
    return plugin


def parse_suite_options(suite: SuiteSpec, options_type: type[msgspec.Struct]) -> msgspec.Struct:
    """Return the options of a suite as their type; refuse wrong ones."""
    try:
        return msgspec.convert(suite.options, options_type)
    except msgspec.ValidationError as error:
        raise UsageError(f"suite {suite.id}: options: {error}") from error


def build_scorer(spec: SuiteSpec, folder: Path) -> tuple[ScoreFunction, dict[str, str]]:
    """Return the function that scores a suite's answers, and its identity."""
    if isinstance(spec.scorer, str) or spec.scorer is None:
        name, given = spec.scorer or find_suite_plugin(spec).scorer, {}
    else:
        name, given = spec.scorer.name, dict(spec.scorer.options)
    if name is None:
        raise UsageError(
            f"suite {spec.id} needs a scorer, or from: ID in place of its dataset to look at the "
            "answers to another suite"
        )
    if (name == JUDGE_SCORER) != (spec.judge is not None):
        raise UsageError(
            f"suite {spec.id}: the scorer {JUDGE_SCORER!r} and a judge of the pack come together, "
            f"as in scorer: {{name: {JUDGE_SCORER}, judge: NAME}}"
        )
    scorer = scorers().get(name)
    if "folder" in scorer.places:
        given = {**given, "folder": str(folder)}
    options = scorer.options_from(given)
    return scorer.ready(options), scorer.identity(options)
