"""Read a pack file and open it for a run: keys, data, suite plugins and scorers.

Every mistake in the file is reported with its line before anything runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.evidence.exam import suites
from gatemark.evidence.rows import Snapshot, draw_rows, frozen_rows, read_dataset
from gatemark.evidence.settings_file import (
    SettingsProblem,
    option_problems,
    parse_settings,
    problem_in,
    settings_text,
)
from gatemark.packs.pack import Pack
from gatemark.packs.questions import make_calls
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.packs.suites.suite import PackSuite
from gatemark.scorers.judge.grading import NAME as JUDGE_SCORER
from gatemark.scorers.scorer import ScoreFunction, scorers
from gatemark.targets.environment import select_environment
from gatemark.targets.spec import TargetSpec

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

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


BUILTIN = "builtin:"


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
    return OpenPack(pack, folder, snapshots, labels, _read_git_state(folder))


_GIT_RUNS_NOTHING: Final = (
    "--no-optional-locks",
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
)


def ask_git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints about a folder; None if it refuses or is not installed.

    The folder belongs to whoever is examined. Settings of a repository can name programs (a file
    monitor, hooks), and a change can bring a whole bare repository among its files, which git would
    take for the folder's own. So both are switched off, and git gets no more of the environment
    than a target does.
    """
    git = shutil.which("git")
    if git is None:
        return None
    own = [name for name in os.environ if name.startswith("GIT_")]
    done = subprocess.run(  # noqa: S603 - no shell
        [git, *_GIT_RUNS_NOTHING, "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=select_environment(os.environ, own),
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _read_git_state(folder: Path) -> dict[str, str]:
    head = ask_git(folder, "rev-parse", "HEAD")
    if head is None:
        return {}
    dirty = ask_git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"git.commit": head, "git.dirty": "unknown" if dirty is None else str(bool(dirty))}


def load_snapshots(pack: Pack, folder: Path) -> dict[str, Snapshot]:
    """Return a snapshot per suite; a suite that looks at another's answers shares its snapshot."""
    answering = [suite for suite in pack.suites if suite.dataset is not None]
    found = {suite.id: load_snapshot(suite, folder) for suite in answering}
    for suite in pack.suites:
        if suite.source is not None:
            found[suite.id] = found[suite.source]
    return found


def load_snapshot(suite: SuiteSpec, folder: Path) -> Snapshot:
    """Return the rows of one suite, after its draw if it has one."""
    dataset = str(suite.dataset)
    if dataset.startswith(BUILTIN):
        snapshot = _load_builtin(dataset.removeprefix(BUILTIN))
    else:
        snapshot = read_dataset(str(folder / dataset), dataset)
    return snapshot if suite.sample is None else draw_rows(snapshot, suite.sample)


def _load_builtin(name: str) -> Snapshot:
    if name != "probes_v1":
        raise UsageError(f"no built-in data set is called {name!r} (there is: probes_v1)")
    records = [
        {**probe, "tags": {**probe["tags"], "class": probe["class"]}} for probe in load_probes()
    ]
    return frozen_rows(BUILTIN + name, records)


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


def find_probe_file() -> Traversable:
    """Return the bundled file of probes."""
    return files("gatemark.packs.probes") / "probes_v1.jsonl"


def load_probes() -> list[dict[str, Any]]:
    """Return the bundled probes as plain records, in file order."""
    return [msgspec.json.decode(line) for line in find_probe_file().read_bytes().splitlines()]


CANDIDATE, BASELINE = "candidate", "baseline"
