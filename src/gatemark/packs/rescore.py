"""Derive a result again from the evidence stored with it.

A seal shows that a result was not changed after it was made. Deriving its measurements and verdict
again shows that it was right when it was made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gatemark.core.canonical import digest, is_digest
from gatemark.core.errors import (
    GatemarkError,
    IncomparableError,
    IntegrityError,
    NewerFormatError,
    OtherRulesError,
)
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Bench, Finding, Verdict, Waiver, decide
from gatemark.core.reason import Reason
from gatemark.core.result import PACK_BLOB, Figure, Result, read_result
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.exam import ExamOutcome, ExamRun
from gatemark.evidence.exam_inputs import EXAM_INPUTS, EXPECTED_IDS, ExamInputs, read_exam_inputs
from gatemark.evidence.exam_suite import exam_suite, suites
from gatemark.evidence.judge_exam import SCORE_PACK, reword_findings
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.result_rules import COMPARE_BLOB, check_result_rules, is_of_this_build
from gatemark.evidence.run_exam import run_exam
from gatemark.evidence.runtime_versions import PACKAGES, runtime_versions
from gatemark.evidence.shards import whole_file
from gatemark.evidence.small_file import read_expected_ids
from gatemark.evidence.source import inspect_source
from gatemark.ledger.port import BlobStore, Store, erasure_of
from gatemark.packs.judge import JudgedAgain, PackDecision
from gatemark.packs.rescored_words import list_other_sentences, list_other_words
from gatemark.packs.seal_compare import compare_again
from gatemark.packs.stored_run import rejudge_pack, run_suites_again

T = TypeVar("T")
_LONGEST_NAME: Final = 255
"""In bytes, on the file systems that matter."""
OTHER_SOFTWARE_TOLERANCE: Final = 1e-9
"""Tolerance for numbers that another version of a library computes."""


class Rescored(msgspec.Struct, frozen=True):
    """The outcome of deriving a result again: differences, and what could not be checked."""

    differences: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()


def rescore_store(store: Store, is_erased: Callable[[str], bool]) -> Iterator[tuple[str, Rescored]]:
    """Derive every result that verifies again."""
    for result_id, document in store.results.documents():
        try:
            # Of an erased result the store gives what is left; its seal covered the rest.
            is_whole = not is_erased(result_id)
            result = read_result(result_id, document) if is_whole else store.results.get(result_id)
            check_result_rules(result, store.blobs)
        except (IntegrityError, NewerFormatError, OtherRulesError):
            # The check of results reports it.
            continue
        done = rescore_result(store.blobs, result, is_erased)
        yield result_id, done if is_whole else _note_erased_texts(done)


def _note_erased_texts(done: Rescored) -> Rescored:
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
        if EXAM_INPUTS in kept:
            inputs = read_exam_inputs(blobs.get(kept[EXAM_INPUTS]))
            derived = _judge_exam_again(result, inputs.kind, _run_exam_again(blobs, result, inputs))
        elif PACK_BLOB in kept:
            derived = rejudge_pack(blobs, result)
        elif COMPARE_BLOB in kept:
            derived = compare_again(blobs, result)
        else:
            return Rescored(unjudged=("cannot be derived again: no pack was kept with it",))
    except (IncomparableError, NewerFormatError, OtherRulesError) as error:
        return Rescored(unjudged=(f"cannot be derived again: {error}",))
    except IntegrityError as error:
        return Rescored(differences=(str(error),))
    except GatemarkError as error:
        why = f"its evidence cannot be judged: {error}"
        return _excuse_other_build(result, why) or Rescored(differences=(why,))
    differences = [*derived.differences, *_list_differences(result, derived.judged)]
    unchecked = [
        *_list_other_measures(result, derived.judged),
        *list_other_words(result, derived.judged, _choose_tolerance(result)),
    ]
    if is_of_this_build(result):
        unchecked.extend(list_other_sentences(result, derived, _has_same_numbers(result)))
    if _is_of_this_software(result):
        # Nothing excuses what this very build would have sealed otherwise.
        return Rescored((*differences, *unchecked), derived.unjudged)
    return Rescored(tuple(differences), (*derived.unjudged, *unchecked))


def _is_of_this_software(result: Result) -> bool:
    """Whether this build sealed a result, and no suite in it is of another package."""
    kinds = {*result.rules, *(account.checks.get("kind", "") for account in result.evidence)}
    found = [suites().find(kind) for kind in sorted(kinds)]
    return is_of_this_build(result) and all(
        plugin is None or plugin.is_built_in for plugin in found
    )


def _excuse_other_build(result: Result, why: str) -> Rescored | None:
    """Return what cannot be derived again because another build sealed it."""
    if is_of_this_build(result):
        return None
    made_by = result.runtime.get("gatemark")
    return Rescored(unjudged=(f"cannot be derived again: {why}; Gatemark {made_by} sealed it",))


def _list_other_measures(result: Result, derived: PackDecision) -> Iterator[str]:
    """Yield numbers that this build measures by another version of the measure, or no longer."""
    after = {number.key: number for number in derived.measurements}
    for old in result.measurements:
        new = after.get(old.key)
        if new is not None and new.version != old.version:
            yield f"{old.name} is measured by version {new.version} now, it was {old.version}"
        elif new is None and not is_of_this_build(result):
            yield f"{old.name} is not measured any more"
    if not is_of_this_build(result):
        known = {number.key for number in result.measurements}
        yield from (f"{name} is missing from it" for name, _ in after.keys() - known)


class DerivedExam(msgspec.Struct, frozen=True):
    """An exam of a result, derived again from its evidence, and judged by its own rules alone."""

    options: Mapping[str, Any]
    outcome: ExamOutcome
    verdict: Verdict

    def summary(self) -> dict[str, Any]:
        """The summary of the exam."""
        return self.outcome.exam.summary(self.outcome.report, self.outcome.evidence, self.verdict)


def derive_exams(blobs: BlobStore, result: Result, kind: str) -> Iterator[DerivedExam]:
    """Yield the exams of one kind in a result: its own, or the suites of its pack.

    Waivers apply to an exam of its own. A suite of a pack is judged without them.
    """
    check_result_rules(result, blobs)
    kept = {blob.name: blob.digest for blob in result.blobs}
    if EXAM_INPUTS in kept:
        inputs = read_exam_inputs(blobs.get(kept[EXAM_INPUTS]))
        if inputs.kind == kind:
            outcome = _run_exam_again(blobs, result, inputs)
            yield _decide_exam(result, inputs.options, outcome, result.waivers)
    elif PACK_BLOB in kept:
        for options, outcome in run_suites_again(blobs, result, kind):
            yield _decide_exam(result, options, outcome, ())


def _decide_exam(
    result: Result, options: Mapping[str, Any], outcome: ExamOutcome, waivers: Sequence[Waiver]
) -> DerivedExam:
    policy, numbers = outcome.exam.policy(), outcome.report.measurements
    verdict = decide(policy, (outcome.evidence,), numbers, waivers, now=result.finished_at)
    return DerivedExam(options, outcome, verdict)


def _run_exam_again(blobs: BlobStore, result: Result, inputs: ExamInputs) -> ExamOutcome:
    if result.pack.name != f"{SCORE_PACK}{inputs.kind}":
        raise IntegrityError(f"its {EXAM_INPUTS} is of the exam {inputs.kind!r}")
    needed = {role.name for role in exam_suite(inputs.kind).roles if role.required}
    (account,) = result.evidence
    if len(account.files) != len(inputs.roles):
        raise IntegrityError(f"its {EXAM_INPUTS} names other evidence files")
    if not needed <= set(inputs.roles):
        raise IncomparableError("an evidence file was not there when it was made")
    with _spool_evidence(blobs, result) as (paths, expected):
        return run_exam(
            ExamRun(
                kind=inputs.kind,
                options=inputs.options,
                files=list(zip(inputs.roles, paths, strict=True)),
                reading=_read_choices(inputs.reading),
                engine=LocalEngine(1),
                expected_ids=expected,
                left_out=inputs.left_out,
            )
        )


def _judge_exam_again(result: Result, kind: str, examined: ExamOutcome) -> JudgedAgain:
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
    verdict = reword_findings(verdict, examined.exam.reasons(examined.report, verdict))
    pack = digest({"kind": kind, "policy": policy})
    closing = examined.exam.closing(examined.report, evidence, verdict)
    names = {
        file.name: before.name
        for file, before in zip(examined.evidence.files, account.files, strict=True)
    }
    verdict = msgspec.structs.replace(verdict, caveats=(*verdict.caveats, *closing.caveats))
    verdict = _rename_files(verdict, names, Verdict)
    numbers = _rename_files(numbers, names, tuple[Measurement, ...])
    drawn = (*closing.figures, *examined.report.figures)
    figures = _rename_files(drawn, names, tuple[Figure, ...])
    return JudgedAgain(
        PackDecision(policy, numbers, figures, verdict, (evidence,)),
        differences=() if pack == result.pack.digest else ("its pack is not the exam it names",),
    )


def _rename_files(value: object, names: Mapping[str, str], form: type[T]) -> T:
    """Return a value in which files have the names that users gave them."""
    text = msgspec.json.encode(value)
    for now, before in names.items():
        text = text.replace(msgspec.json.encode(now)[1:-1], msgspec.json.encode(before)[1:-1])
    return msgspec.json.decode(text, type=form)


@contextmanager
def _spool_evidence(
    blobs: BlobStore, result: Result
) -> Iterator[tuple[list[str], frozenset[str] | None]]:
    """Write the evidence of an exam to files; yield their paths and the stored ids."""
    (account,) = result.evidence
    pins = [blob for blob in result.blobs if blob.name == EXPECTED_IDS]
    with tempfile.TemporaryDirectory(prefix="gatemark-") as name:
        folder = Path(name)
        paths = [
            _spool(blobs, file.digest, _choose_place(folder / str(number), file.name))
            for number, file in enumerate(account.files)
        ]
        expected = None
        if pins:
            expected = read_expected_ids(_spool(blobs, pins[0].digest, folder / EXPECTED_IDS))
        yield paths, expected


def _choose_place(folder: Path, name: str) -> Path:
    """Return where to write a file: under its own name, which figures quote, if that is one."""
    folder.mkdir()
    own = Path(name).name
    is_usable = own not in ("", "..") and own.isprintable() and len(own.encode()) <= _LONGEST_NAME
    return folder / (own if is_usable else "evidence")


def _read_choices(checks: Mapping[str, str]) -> ReadingChoices:
    return ReadingChoices(
        on_bad_line=_read_choice(checks, "on_bad_line"),
        on_duplicate=_read_choice(checks, "on_duplicate"),
        on_unpaired=_read_choice(checks, "on_unpaired"),
        check_duplicate_keys=checks.get("duplicate_keys") == "checked",
    )


def _read_choice(checks: Mapping[str, str], name: str) -> Any:
    if name not in checks:
        raise IncomparableError(f"its evidence does not say {name}")
    return checks[name]


def read_evidence_lines(blobs: BlobStore, digest: str) -> Iterator[bytes]:
    """Yield the lines of an evidence file, which may be compressed."""
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        source = inspect_source(_spool(blobs, digest, Path(folder) / "evidence"))
        for block in read_blocks(whole_file(source), Limits()):
            yield from block.data.splitlines()


def _spool(blobs: BlobStore, name: str, target: Path) -> str:
    with target.open("wb") as stream:
        for piece in blobs.pieces(name):
            stream.write(piece)
    return str(target)


def _list_differences(result: Result, derived: PackDecision) -> Iterator[str]:
    if derived.policy.digest != result.policy_digest:
        yield "its policy is not the one that its pack makes"
    if derived.evidence != result.evidence:
        yield "its account of the evidence is not what the evidence gives"
    yield from _list_number_differences(result, derived.measurements)
    for name, old, new in (
        ("bench", result.bench, derived.verdict.bench),
        ("regression", result.regression, derived.verdict.regression),
    ):
        if not _is_same_total(old, new, _choose_tolerance(result)):
            yield f"its {name} is not what its evidence gives"
    if derived.verdict.outcome != result.verdict:
        yield f"its verdict is {result.verdict}, its evidence gives {derived.verdict.outcome}"
    yield from _list_finding_differences(result, derived.verdict.findings)


def _list_finding_differences(result: Result, derived: Sequence[Finding]) -> Iterator[str]:
    tolerance, is_erased = _choose_tolerance(result), erasure_of(result) is not None
    before = {finding.rule: finding for finding in result.findings}
    after = {finding.rule: finding for finding in derived}
    for rule in sorted(before.keys() | after.keys()):
        old, new = before.get(rule), after.get(rule)
        if old is None or new is None or old.verdict != new.verdict:
            was, is_now = old and old.verdict, new and new.verdict
            yield f"rule {rule} was {was}, its evidence gives {is_now}"
        elif not _is_same_finding(old, new, tolerance):
            yield f"rule {rule} has other numbers than its evidence gives"
        elif not (is_erased or _has_same_reason(old.reason, new.reason, tolerance)):
            yield f"rule {rule} gave as its reason {str(old.reason)!r}, its evidence another one"


def _is_same_finding(old: Finding, new: Finding, tolerance: float) -> bool:
    """Whether two findings of a rule have the same bound and numbers."""
    if msgspec.structs.replace(
        old, reason=new.reason, observed=new.observed, slack=new.slack
    ) != new or (old.observed is None) != (new.observed is None):
        return False
    pairs = ((old.observed, new.observed), (old.slack, new.slack))
    return all(abs(a - b) <= tolerance for a, b in pairs if a is not None and b is not None)


def _choose_tolerance(result: Result) -> float:
    return 0.0 if _has_same_numbers(result) else OTHER_SOFTWARE_TOLERANCE


def _has_same_numbers(result: Result) -> bool:
    """Whether the libraries that made a result are those that derive it again."""
    now = runtime_versions()
    packages = ("python", "gatemark", *PACKAGES)
    return all(result.runtime.get(name) == now.get(name) for name in packages)


def _is_same_total(old: Bench | None, new: Bench | None, tolerance: float) -> bool:
    if old is None or new is None:
        return old is new
    if old.value is None or new.value is None:
        return old.value is new.value and _has_same_reason(old.reason, new.reason, tolerance)
    return abs(old.value - new.value) <= tolerance


def _list_number_differences(result: Result, derived: Sequence[Measurement]) -> Iterator[str]:
    tolerance, is_erased = _choose_tolerance(result), erasure_of(result) is not None
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
            if not is_of_this_build(result) and not is_ruled:
                continue
            yield f"{name} is {'not measured any more' if new is None else 'missing from it'}"
        elif old.version == new.version and not _is_same_number(
            old, new, tolerance, is_erased=is_erased
        ):
            yield f"{name} was {_format_number(old)}, its evidence gives {_format_number(new)}"


def _is_same_number(
    old: Measurement, new: Measurement, tolerance: float, *, is_erased: bool
) -> bool:
    if (old.n, old.value is None) != (new.n, new.value is None):
        return False
    if not (is_erased or _has_same_reason(old.reason, new.reason, tolerance)):
        return False
    pairs = [(old.value, new.value)]
    if (old.interval is None) != (new.interval is None):
        return False
    if old.interval is not None and new.interval is not None:
        pairs += [(old.interval.low, new.interval.low), (old.interval.high, new.interval.high)]
    return all(
        a == b or (a is not None and b is not None and abs(a - b) <= tolerance) for a, b in pairs
    )


def _has_same_reason(old: Reason | None, new: Reason | None, tolerance: float) -> bool:
    """Whether two reasons say the same; the sentence may be worded in another way by now."""
    if old is None or new is None:
        return old is new
    return old.is_same(new, tolerance)


def _format_number(number: Measurement) -> str:
    value = number.reason if number.value is None else f"{number.value:.6g}"
    return f"{value} (n={number.n})"
