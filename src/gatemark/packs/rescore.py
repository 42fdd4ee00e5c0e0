"""Derive a result again from the evidence stored with it.

A seal shows that a result was not changed after it was made. Deriving its measurements and verdict
again shows that it was right when it was made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.canonical import digest, is_digest
from gatemark.core.errors import GatemarkError, IncomparableError, IntegrityError, NewerFormatError
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Verdict, Waiver, decide
from gatemark.core.result import Result, read_result
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.exam import (
    EXAM_INPUTS,
    EXPECTED_IDS,
    PACKAGES,
    ExamInputs,
    ExamOutcome,
    ExamRun,
    ExamSuite,
    exam_suite,
    read_exam_inputs,
    runtime_versions,
    suites,
)
from gatemark.evidence.run_exam import run_exam
from gatemark.evidence.source import (
    Limits,
    ReadingChoices,
    inspect_source,
    read_blocks,
    read_expected_ids,
    whole_file,
)
from gatemark.ledger.port import GONE, BlobStore, Store
from gatemark.packs.judge import PackDecision
from gatemark.packs.rejudge import JudgedAgain, rejudge_pack, suites_again
from gatemark.packs.seal import PACK_BLOB
from gatemark.packs.seal_compare import COMPARE_BLOB, compare_again

SCORE_PACK: Final = "score-"
"""Prefix of the pack name of a result that comes from one exam."""
OTHER_SOFTWARE_TOLERANCE: Final = 1e-9
"""Tolerance for numbers that another version of a library computes."""


class Rescored(msgspec.Struct, frozen=True):
    """The outcome of deriving a result again: differences, and what could not be checked."""

    differences: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()


def rescore(store: Store, is_erased: Callable[[str], bool]) -> Iterator[tuple[str, Rescored]]:
    """Derive every result that verifies again."""
    for result_id, document in store.results.documents():
        try:
            # Of an erased result the store gives what is left; its seal covered the rest.
            is_whole = not is_erased(result_id)
            result = read_result(result_id, document) if is_whole else store.results.get(result_id)
        except (IntegrityError, NewerFormatError):
            # Seal verification reports it.
            continue
        done = rescore_result(store.blobs, result, is_erased)
        yield result_id, done if is_whole else _without_texts(done)


def _without_texts(done: Rescored) -> Rescored:
    why = "its texts were erased: tables, caveats, blockers and reasons cannot be compared"
    return msgspec.structs.replace(done, unjudged=(why, *done.unjudged))


def rescore_result(blobs: BlobStore, result: Result, is_erased: Callable[[str], bool]) -> Rescored:
    """Derive one result again from its evidence."""
    named = {file.digest for account in result.evidence for file in account.files}
    named.update(blob.digest for blob in result.blobs)
    gone = [name for name in sorted(named) if not (is_digest(name) and blobs.has(name))]
    if gone:
        word = "was erased" if is_erased(gone[0]) else "is missing"
        return Rescored(unjudged=(f"cannot be derived again: {gone[0]} {word}",))
    try:
        kept = {blob.name: blob.digest for blob in result.blobs}
        inputs = _inputs(blobs, result, kept)
        if inputs is not None:
            derived = _judged(result, inputs.kind, _examined(blobs, result, inputs))
        elif PACK_BLOB in kept:
            derived = rejudge_pack(blobs, result)
        elif COMPARE_BLOB in kept:
            derived = JudgedAgain(compare_again(blobs, result))
        else:
            return Rescored(unjudged=("cannot be derived again: no pack was kept with it",))
    except (IncomparableError, NewerFormatError) as error:
        return Rescored(unjudged=(f"cannot be derived again: {error}",))
    except IntegrityError as error:
        return Rescored(differences=(str(error),))
    except GatemarkError as error:
        why = f"its evidence cannot be judged: {error}"
        return _of_another_build(result, why) or Rescored(differences=(why,))
    if derived.judged.policy.digest != result.policy_digest:
        # Rules follow from options; a build with other rules cannot judge by these.
        why = "its policy is not the one that its pack makes"
        changed = _of_another_build(result, why)
        if changed is not None:
            return changed
    differences = [*derived.differences, *_differences(result, derived.judged)]
    return Rescored(
        tuple(differences), (*derived.unjudged, *_other_measures(result, derived.judged))
    )


def _is_of_another_build(result: Result) -> bool:
    return result.runtime.get("gatemark") != runtime_versions()["gatemark"]


def _of_another_build(result: Result, why: str) -> Rescored | None:
    """Return what cannot be derived again because another build sealed it."""
    if not _is_of_another_build(result):
        return None
    made_by = result.runtime.get("gatemark")
    return Rescored(unjudged=(f"cannot be derived again: {why}; Gatemark {made_by} sealed it",))


def _other_measures(result: Result, derived: PackDecision) -> Iterator[str]:
    """Yield numbers that this build measures by another version of the measure, or no longer."""
    after = {number.key: number for number in derived.measurements}
    for old in result.measurements:
        new = after.get(old.key)
        if new is not None and new.version != old.version:
            yield f"{old.name} is measured by version {new.version} now, it was {old.version}"
        elif new is None and _is_of_another_build(result):
            yield f"{old.name} is not measured any more"


def _inputs(blobs: BlobStore, result: Result, kept: Mapping[str, str]) -> ExamInputs | None:
    if EXAM_INPUTS in kept:
        return read_exam_inputs(blobs.get(kept[EXAM_INPUTS]))
    return _older_inputs(result)


class DerivedExam(msgspec.Struct, frozen=True):
    """An exam of a result, derived again from its evidence, and judged by its own rules alone."""

    options: Mapping[str, Any]
    outcome: ExamOutcome
    verdict: Verdict

    def summary(self) -> dict[str, Any]:
        """The summary of the exam."""
        return self.outcome.exam.summary(self.outcome.report, self.outcome.evidence, self.verdict)


def derived_exams(blobs: BlobStore, result: Result, kind: str) -> Iterator[DerivedExam]:
    """Yield the exams of one kind in a result: its own, or the suites of its pack.

    Waivers apply to an exam of its own. A suite of a pack is judged without them.
    """
    kept = {blob.name: blob.digest for blob in result.blobs}
    inputs = _inputs(blobs, result, kept)
    if inputs is not None:
        if inputs.kind == kind:
            outcome = _examined(blobs, result, inputs)
            yield _derived(result, inputs.options, outcome, result.waivers)
    elif PACK_BLOB in kept:
        for options, outcome in suites_again(blobs, result, kind):
            yield _derived(result, options, outcome, ())


def _derived(
    result: Result, options: Mapping[str, Any], outcome: ExamOutcome, waivers: Sequence[Waiver]
) -> DerivedExam:
    policy, numbers = outcome.exam.policy(), outcome.report.measurements
    verdict = decide(policy, (outcome.evidence,), numbers, waivers, now=result.finished_at)
    return DerivedExam(options, outcome, verdict)


def _examined(blobs: BlobStore, result: Result, inputs: ExamInputs) -> ExamOutcome:
    if result.pack.name != f"{SCORE_PACK}{inputs.kind}":
        raise IntegrityError(f"its {EXAM_INPUTS} is of the exam {inputs.kind!r}")
    needed = {role.name for role in exam_suite(inputs.kind).roles if role.required}
    (account,) = result.evidence
    if len(account.files) != len(inputs.roles):
        raise IntegrityError(f"its {EXAM_INPUTS} names other evidence files")
    if not needed <= set(inputs.roles):
        raise IncomparableError("an evidence file was not there when it was made")
    with _spooled_evidence(blobs, result) as (paths, expected):
        # An exam that requires certain files counts the expected ids from them, without a list.
        if account.expected is not None and expected is None and not needed:
            raise IncomparableError("the list of expected ids was not kept with it")
        return run_exam(
            ExamRun(
                kind=inputs.kind,
                options=inputs.options,
                files=list(zip(inputs.roles, paths, strict=True)),
                reading=_choices(inputs.reading),
                engine=LocalEngine(1),
                expected_ids=expected,
                left_out=inputs.left_out,
            )
        )


def _older_inputs(result: Result) -> ExamInputs | None:
    """Return the inputs of a result sealed before inputs were stored, if its exam knows them."""
    kind = result.pack.name.removeprefix(SCORE_PACK)
    if kind == result.pack.name or kind not in suites():
        return None
    suite = exam_suite(kind)
    if suite.options_of is None:
        return None
    (account,) = result.evidence
    roles = _older_roles(suite, len(account.files))
    return ExamInputs(kind, suite.options_of(result.policy), account.checks, roles)


def _older_roles(suite: ExamSuite, count: int) -> tuple[str, ...]:
    """Return the roles of older files: the first for one file, the next ones for several."""
    if count == 1:
        return (suite.roles[0].name,)
    names = [role.name for role in suite.roles[1:] if not (role.named or role.alone)]
    return (*names, *(f"file {n}" for n in range(len(names) + 1, count + 1)))[:count]


def _judged(result: Result, kind: str, examined: ExamOutcome) -> JudgedAgain:
    (account,) = result.evidence
    # Only file names may differ: users chose them then, and Gatemark does now.
    evidence = msgspec.structs.replace(
        examined.evidence,
        files=tuple(
            msgspec.structs.replace(file, name=before.name)
            for file, before in zip(examined.evidence.files, account.files, strict=True)
        ),
    )
    policy, numbers = examined.exam.policy(), examined.report.measurements
    verdict = decide(policy, (evidence,), numbers, result.waivers, now=result.finished_at)
    pack = digest({"kind": kind, "policy": policy})
    return JudgedAgain(
        PackDecision(policy, numbers, (), verdict, (evidence,)),
        differences=() if pack == result.pack.digest else ("its pack is not the exam it names",),
    )


@contextmanager
def _spooled_evidence(
    blobs: BlobStore, result: Result
) -> Iterator[tuple[list[str], frozenset[str] | None]]:
    """Write the evidence of an exam to files; yield their paths and the stored ids."""
    (account,) = result.evidence
    pins = [blob for blob in result.blobs if blob.name == EXPECTED_IDS]
    with tempfile.TemporaryDirectory(prefix="gatemark-") as name:
        folder = Path(name)
        paths = [
            _spooled(blobs, file.digest, folder / str(number))
            for number, file in enumerate(account.files)
        ]
        expected = None
        if pins:
            expected = read_expected_ids(_spooled(blobs, pins[0].digest, folder / EXPECTED_IDS))
        yield paths, expected


def _choices(checks: Mapping[str, str]) -> ReadingChoices:
    return ReadingChoices(
        on_bad_line=_choice(checks, "on_bad_line"),
        on_duplicate=_choice(checks, "on_duplicate"),
        on_unpaired=_choice(checks, "on_unpaired"),
        check_duplicate_keys=checks.get("duplicate_keys") == "checked",
    )


def _choice(checks: Mapping[str, str], name: str) -> Any:
    if name not in checks:
        raise IncomparableError(f"its evidence does not say {name}")
    return checks[name]


def evidence_lines(blobs: BlobStore, digest: str) -> Iterator[bytes]:
    """Yield the lines of an evidence file, which may be compressed."""
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        source = inspect_source(_spooled(blobs, digest, Path(folder) / "evidence"))
        for block in read_blocks(whole_file(source), Limits()):
            yield from block.data.splitlines()


def _spooled(blobs: BlobStore, name: str, target: Path) -> str:
    with target.open("wb") as stream:
        for piece in blobs.pieces(name):
            stream.write(piece)
    return str(target)


def _differences(result: Result, derived: PackDecision) -> Iterator[str]:
    if derived.policy.digest != result.policy_digest:
        yield "its policy is not the one that its pack makes"
    if derived.evidence != result.evidence:
        yield "its account of the evidence is not what the evidence gives"
    yield from _number_differences(result, derived.measurements)
    if derived.verdict.outcome != result.verdict:
        yield f"its verdict is {result.verdict}, its evidence gives {derived.verdict.outcome}"
    before = {finding.rule: finding.verdict for finding in result.findings}
    after = {finding.rule: finding.verdict for finding in derived.verdict.findings}
    for rule in sorted(before.keys() | after.keys()):
        if before.get(rule) != after.get(rule):
            yield f"rule {rule} was {before.get(rule)}, its evidence gives {after.get(rule)}"


def _number_differences(result: Result, derived: Sequence[Measurement]) -> Iterator[str]:
    now = runtime_versions()
    packages = ("python", "gatemark", *PACKAGES)
    is_same = all(result.runtime.get(name) == now.get(name) for name in packages)
    tolerance = 0.0 if is_same else OTHER_SOFTWARE_TOLERANCE
    before = {number.key: number for number in result.measurements}
    after = {number.key: number for number in derived}
    ruled = {one.metric for rule in result.policy.rules for one in (rule, *rule.fallback_rules)}
    for key in sorted(before.keys() | after.keys(), key=str):
        old, new = before.get(key), after.get(key)
        name = key[0] if key[1] is None else f"{key[1]}.{key[0]}"
        if old is None or new is None:
            # A later build may measure more or less; that is reported as not checked.
            # Everything that the sealed policy has a rule for must have been measured.
            is_ruled = old is None and key[0] in ruled
            if _is_of_another_build(result) and not is_ruled:
                continue
            yield f"{name} is {'not measured any more' if new is None else 'missing from it'}"
        elif old.version == new.version and not _same(old, new, tolerance):
            yield f"{name} was {_shown(old)}, its evidence gives {_shown(new)}"


def _same(old: Measurement, new: Measurement, tolerance: float) -> bool:
    reason = new.reason if old.reason != GONE else GONE
    if (old.n, old.reason, old.value is None) != (new.n, reason, new.value is None):
        return False
    pairs = [(old.value, new.value)]
    if (old.interval is None) != (new.interval is None):
        return False
    if old.interval is not None and new.interval is not None:
        pairs += [(old.interval.low, new.interval.low), (old.interval.high, new.interval.high)]
    return all(
        a == b or (a is not None and b is not None and abs(a - b) <= tolerance) for a, b in pairs
    )


def _shown(number: Measurement) -> str:
    value = number.reason if number.value is None else f"{number.value:.6g}"
    return f"{value} (n={number.n})"
