"""Reading a pack file: every mistake in it is named with its line before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.evidence.exam import suites
from gatemark.evidence.settings_file import (
    SettingsProblem,
    option_problems,
    parse_settings,
    problem_in,
    settings_text,
)
from gatemark.packs.pack import Pack, ScorerSpec, SuiteSpec
from gatemark.packs.suites.suite import PackSuite
from gatemark.scorers.scorer import scorers
from gatemark.targets.spec import TargetSpec

WRITTEN_KEYS: Final = ("api_key", "apiKey", "key", "token")
"""What people call the key of an endpoint when they write it into a pack."""


def read_pack_file(path: str) -> Pack:
    """Return the pack of a file, with options that its scorers, suites and targets know."""
    text = settings_text(path)
    value = parse_settings(text, path)
    _refuse_other_tools(value, path)
    try:
        pack = msgspec.convert(value, Pack)
    except msgspec.ValidationError as error:
        raise BadInputError(problem_in(str(error), Pack).in_file(text, path)) from error
    problems = [problem.in_file(text, path) for problem in _problems(pack)]
    if problems:
        raise BadInputError(tuple(problems))
    return pack


def has_matrix(path: str) -> bool:
    """Tell whether a pack file has several candidates; other mistakes are found when it is read."""
    value = parse_settings(settings_text(path), path)
    return isinstance(value, dict) and bool(value.get("matrix"))


def _refuse_other_tools(value: object, path: str) -> None:
    """Say what to do with a file of promptfoo in place of a pack."""
    if not isinstance(value, dict) or "gatemark" in value:
        return
    if "providers" in value or "prompts" in value:
        raise BadInputError(
            f"{path}: is a promptfoo config, not a pack; gate its results: promptfoo eval "
            f"-c {path} -o cand.json, then gatemark compare base.json cand.json. Or make a pack "
            f"of it: gatemark init FOLDER --from promptfoo {path}"
        )
    if "evalId" in value or "results" in value:
        raise BadInputError(
            f"{path}: is a log, not a pack; compare two logs: gatemark compare base.json {path}"
        )


def _problems(pack: Pack) -> Iterator[SettingsProblem]:
    """Mistakes below the keys whose form depends on a plugin."""
    for number, suite in enumerate(pack.suites):
        yield from _suite_problems(suite, f"$.suites[{number}]")
    if pack.targets is not None:
        yield from _target_problems(pack.targets.candidate, "$.targets.candidate")
        if pack.targets.baseline != "none":
            yield from _target_problems(pack.targets.baseline, "$.targets.baseline")
    for cell in pack.cells():
        axis, value = list(cell.values.items())[-1]
        for problem in _target_problems(cell.target, f"$.matrix.{axis}.{value}"):
            yield problem._replace(message=f"matrix {cell.name}: {problem.message}")
    for name, judge in pack.judges.items():
        yield from _target_problems(judge.target, f"$.judges.{name}.target")


def _suite_problems(suite: SuiteSpec, path: str) -> Iterator[SettingsProblem]:
    try:
        plugin = suites().get(suite.kind)
    except GatemarkError as error:
        yield SettingsProblem(f"{path}.kind", f"suite {suite.id}: {error}", is_complete=True)
        return
    problem = option_problems(suite.options, plugin.options)
    # Options of an exam may also follow from its evidence, so only unknown ones are wrong here.
    if problem is not None and (isinstance(plugin, PackSuite) or problem.is_complete):
        told = problem._replace(message=f"suite {suite.id}: {problem.message}")
        yield told.below(f"{path}.options")
    if suite.scorer is not None:
        yield from _scorer_problems(suite.id, suite.scorer, f"{path}.scorer")


def _scorer_problems(suite: str, given: str | ScorerSpec, path: str) -> Iterator[SettingsProblem]:
    name = given if isinstance(given, str) else given.name
    place = path if isinstance(given, str) else f"{path}.name"
    try:
        scorer = scorers().get(name)
    except GatemarkError as error:
        yield SettingsProblem(place, f"suite {suite}: {error}", is_complete=True)
        return
    options = {} if isinstance(given, str) else given.options
    # Places are filled in when the scorer is built.
    problem = option_problems({**options, **dict.fromkeys(scorer.places, "")}, scorer.options)
    if problem is not None:
        told = problem._replace(message=f"suite {suite}: scorer {name}: {problem.message}")
        yield told.below(path if isinstance(given, str) else f"{path}.options")


def _target_problems(given: object, path: str) -> Iterator[SettingsProblem]:
    problem = option_problems(given, TargetSpec)
    if problem is None:
        return
    key = (problem.path or "").rpartition(".")[2]
    if problem.is_complete and key in WRITTEN_KEYS:
        told = (
            f"{key!r} must not be written down; put the key into an environment variable and name "
            "that: api_key_env: MODEL_KEY"
        )
        problem = problem._replace(message=told)
    yield problem.below(path)
