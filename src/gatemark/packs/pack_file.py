"""Read a pack file and open it for a run: keys, data, suite plugins and scorers.

Every mistake in the file is reported with its line before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.evidence.exam_suite import suites
from gatemark.evidence.rows import Snapshot, read_dataset
from gatemark.evidence.settings_file import (
    SettingsProblem,
    option_problems,
    parse_settings,
    problem_in,
    settings_text,
)
from gatemark.packs.git_state import read_git_state
from gatemark.packs.pack import Pack
from gatemark.packs.pack_data import load_snapshots
from gatemark.packs.questions import make_calls
from gatemark.packs.suite_plugins import build_scorer
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.packs.suites.suite import PackSuite
from gatemark.scorers.scorer import ScoreFunction, scorers
from gatemark.targets.spec import TargetSpec

WRITTEN_KEYS: Final = ("api_key", "apiKey", "key", "token")
"""Names that people give to an endpoint's key when they write it into a pack."""


def read_pack_file(path: str) -> Pack:
    """Return the pack of a file, with options that its scorers, suites and targets know."""
    text = settings_text(path)
    value = parse_settings(text, path)
    _refuse_other_tools(value, path)
    try:
        pack = msgspec.convert(value, Pack)
    except msgspec.ValidationError as error:
        raise BadInputError(problem_in(str(error), Pack).in_file(text, path)) from error
    problems = [problem.in_file(text, path) for problem in _find_problems(pack)]
    if problems:
        raise BadInputError(tuple(problems))
    return pack


def has_matrix(path: str) -> bool:
    """Return whether a pack file has several candidates; mistakes are found when it is read."""
    value = parse_settings(settings_text(path), path)
    return isinstance(value, dict) and bool(value.get("matrix"))


def _refuse_other_tools(value: object, path: str) -> None:
    """Tell users what to do with a promptfoo file that was passed as a pack."""
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


def _find_problems(pack: Pack) -> Iterator[SettingsProblem]:
    """Yield mistakes in keys whose form depends on a plugin."""
    for number, suite in enumerate(pack.suites):
        yield from _find_suite_problems(suite, f"$.suites[{number}]")
    if pack.targets is not None:
        yield from _find_target_problems(pack.targets.candidate, "$.targets.candidate")
        if pack.targets.baseline != "none":
            yield from _find_target_problems(pack.targets.baseline, "$.targets.baseline")
    for cell in pack.cells():
        axis, value = list(cell.values.items())[-1]
        for problem in _find_target_problems(cell.target, f"$.matrix.{axis}.{value}"):
            yield problem._replace(message=f"matrix {cell.name}: {problem.message}")
    for name, judge in pack.judges.items():
        yield from _find_target_problems(judge.target, f"$.judges.{name}.target")


def _find_suite_problems(suite: SuiteSpec, path: str) -> Iterator[SettingsProblem]:
    try:
        plugin = suites().get(suite.kind)
    except GatemarkError as error:
        yield SettingsProblem(f"{path}.kind", f"suite {suite.id}: {error}", is_complete=True)
        return
    problem = option_problems(suite.options, plugin.options)
    # Options of an exam may also come from its evidence, so only unknown ones are wrong here.
    if problem is not None and (isinstance(plugin, PackSuite) or problem.is_complete):
        named = problem._replace(message=f"suite {suite.id}: {problem.message}")
        yield named.below(f"{path}.options")
    if suite.scorer is not None:
        yield from _find_scorer_problems(suite.id, suite.scorer, f"{path}.scorer")


def _find_scorer_problems(
    suite: str, given: str | ScorerSpec, path: str
) -> Iterator[SettingsProblem]:
    name = given if isinstance(given, str) else given.name
    place = path if isinstance(given, str) else f"{path}.name"
    try:
        scorer = scorers().get(name)
    except GatemarkError as error:
        yield SettingsProblem(place, f"suite {suite}: {error}", is_complete=True)
        return
    options = {} if isinstance(given, str) else given.options
    # Placeholders are filled in when the scorer is built.
    problem = option_problems({**options, **dict.fromkeys(scorer.places, "")}, scorer.options)
    if problem is not None:
        named = problem._replace(message=f"suite {suite}: scorer {name}: {problem.message}")
        yield named.below(path if isinstance(given, str) else f"{path}.options")


def _find_target_problems(given: object, path: str) -> Iterator[SettingsProblem]:
    problem = option_problems(given, TargetSpec)
    if problem is None:
        return
    key = (problem.path or "").rpartition(".")[2]
    if problem.is_complete and key in WRITTEN_KEYS:
        named = (
            f"{key!r} must not be written down; put the key into an environment variable and name "
            "that: api_key_env: MODEL_KEY"
        )
        problem = problem._replace(message=named)
    yield problem.below(path)


class OpenPack(msgspec.Struct, frozen=True):
    """A pack with its folder, data and judges' labels, read once.

    Nothing is read again, because the examined code may write to the folder later.
    """

    pack: Pack
    folder: Path
    snapshots: dict[str, Snapshot]
    labels: dict[str, Snapshot] = {}
    """The people's labels, by the judge that is compared with them."""
    commit: dict[str, str] = {}
    """The git commit of the folder, if there is one."""
    _scorers: dict[str, tuple[ScoreFunction, dict[str, str]]] = {}

    def scorer(self, suite: SuiteSpec) -> tuple[ScoreFunction, dict[str, str]]:
        """Return the function that scores a suite's answers, and its identity."""
        if suite.id not in self._scorers:
            self._scorers[suite.id] = build_scorer(suite, self.folder)
        return self._scorers[suite.id]

    @property
    def references(self) -> tuple[str, ...]:
        """The snapshots that a result cites."""
        return tuple(sorted({snapshot.reference for snapshot in self.snapshots.values()}))


def open_pack(path: str) -> OpenPack:
    """Read a pack file, ready to run."""
    pack, folder = read_pack_file(path), Path(path).resolve().parent
    snapshots = load_snapshots(pack, folder)
    for suite in pack.suites:
        if suite.template is not None:
            # Refuse templates that cannot be filled in before anything is called.
            make_calls(suite, snapshots[suite.id].rows)
    labels = {
        name: read_dataset(str(folder / judge.labels), judge.labels)
        for name, judge in pack.judges.items()
    }
    return OpenPack(pack, folder, snapshots, labels, read_git_state(folder))


def describe_scoring(opened: OpenPack) -> dict[str, dict[str, str]]:
    """Return the identity of the scoring of every suite with answered items."""
    answering = [suite for suite in opened.pack.suites if suite.dataset is not None]
    return {suite.id: opened.scorer(suite)[1] for suite in answering}


def digest_scorer_code(opened: OpenPack) -> dict[str, str]:
    """Return the digests of the pack's own scorer code, by suite."""
    known = {"scorer", "version", "options"}
    pins = {
        suite: {name: value for name, value in identity.items() if name not in known}
        for suite, identity in describe_scoring(opened).items()
    }
    return {suite: digest(found) for suite, found in pins.items() if found}


CANDIDATE, BASELINE = "candidate", "baseline"
