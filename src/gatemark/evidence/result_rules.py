"""Check the rules that a result names: whether this build can decide it again.

A result names the version of every set of rules that decided it: those of packs, of comparisons of
two logs, and of each exam. Every place that decides a result again, or lets something new rest on
it, asks ``check_result_rules`` first.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final, Protocol

import msgspec

import gatemark
from gatemark.core.canonical import digest_document
from gatemark.core.errors import IntegrityError, InvalidValueError, OtherRulesError
from gatemark.core.result import PACK_BLOB, PACK_VERSION, Result
from gatemark.core.rules import RulesVersions
from gatemark.core.stored import newer_format
from gatemark.evidence.exam_inputs import EXAM_INPUTS
from gatemark.evidence.exam_suite import ExamSuite, exam_suite, suites
from gatemark.evidence.judge_exam import SCORE_PACK

PACK_RULES: Final = RulesVersions("pack")
"""Rules of packs: one pooled test, with a limit for each suite."""
COMPARE_RULES: Final = RulesVersions("compare")
"""Rules of sealed comparisons of two logs."""
COMPARE_BLOB: Final = "compare.json"
"""The name of the definition that is stored with a sealed comparison."""
_OWN: Final = {rules.subject: rules for rules in (PACK_RULES, COMPARE_RULES)}


def name_pack_rules(exam_kinds: Iterable[str]) -> dict[str, int]:
    """Return the versions of the rules that decide a pack with suites of these exams now."""
    exams = {kind: exam_suite(kind).rules_versions.current for kind in exam_kinds}
    return {PACK_RULES.subject: PACK_RULES.current, **exams}


class StoredBlobs(Protocol):
    """Where the files of a result are kept."""

    def has(self, name: str) -> bool:
        """Whether the blob is there."""

    def get(self, name: str) -> bytes:
        """Return the bytes of a blob, checked against its digest."""


def check_result_rules(result: Result, blobs: StoredBlobs) -> None:
    """Raise unless this build has all the rules that decided a result.

    (1) What decided a result follows from the definition that is kept with it. One that names the
    rules of less, or of more, is a forgery, and so is a version that was never released:
    IntegrityError. (2) Rules of another version, or of an exam that is not installed, raise
    OtherRulesError; so do rules of more in a result of another build.
    """
    try:
        subjects = _find_subjects(result, blobs)
    except (IntegrityError, OtherRulesError) as error:
        raise type(error)(f"result {result.id}: {error}") from error
    missing = sorted(subjects - result.rules.keys())
    if missing:
        raise IntegrityError(f"result {result.id} does not name its {missing[0]} rules")
    others = []
    for subject, version in sorted(result.rules.items()):
        try:
            if subject not in subjects:
                _refuse_added_rules(subject, version, result)
            _check_version(subject, version, result)
        except OtherRulesError as error:
            # A forged version of another subject must not hide behind this one.
            others.append(f"result {result.id}: {error}")
        except IntegrityError as error:
            raise IntegrityError(f"result {result.id}: {error}") from error
    if others:
        raise OtherRulesError(others[0])


def _refuse_added_rules(subject: str, version: int, result: Result) -> None:
    if is_of_this_build(result):
        raise IntegrityError(f"names {subject} rules, by which nothing in it was decided")
    raise OtherRulesError(
        f"recorded under {subject} rules {version}, not decided again: "
        f"this build decides nothing in it by {subject} rules"
    )


class _DefinedSuite(msgspec.Struct):
    kind: str
    evidence: dict[str, str] | None = None


class _DefinedPack(msgspec.Struct):
    """What a stored pack says about who decides."""

    gatemark: int
    suites: list[_DefinedSuite]


def _find_subjects(result: Result, blobs: StoredBlobs) -> Set[str]:
    """Return the sets of rules that decided a result, from the definition kept with it."""
    kept = [blob for blob in result.blobs if blob.name in (PACK_BLOB, EXAM_INPUTS, COMPARE_BLOB)]
    if len(kept) > 1:
        raise IntegrityError(f"keeps {len(kept)} definitions of what decided it")
    name = result.pack.name
    exam = name.removeprefix(SCORE_PACK) if name.startswith(SCORE_PACK) else None
    if not kept:
        # A bare claim keeps nothing, so nothing can be derived from it or hidden in it.
        if result.blobs and any("suite" in account.checks for account in result.evidence):
            raise IntegrityError("keeps files of suites, but not the pack that they are of")
        if name == COMPARE_RULES.subject:
            return {COMPARE_RULES.subject}
        return {PACK_RULES.subject if exam is None else exam}
    if kept[0].name == PACK_BLOB:
        return {PACK_RULES.subject, *_find_exams(result, blobs, kept[0].digest)}
    if kept[0].name == COMPARE_BLOB:
        return {COMPARE_RULES.subject}
    if exam is None:
        raise IntegrityError(f"keeps the {EXAM_INPUTS} of an exam, but its pack is {name}")
    return {exam}


def _find_exams(result: Result, blobs: StoredBlobs, pack: str) -> Set[str]:
    """Return the exams over evidence files in a pack; if it was erased, as the result says."""
    if not blobs.has(pack):
        return {
            account.checks["kind"]
            for account in result.evidence
            if {"suite", "kind", "arm"} <= account.checks.keys()
        }
    data = blobs.get(pack)
    try:
        if digest_document(data) != result.pack.digest:
            raise IntegrityError(f"its {PACK_BLOB} is not the pack that it names")
        defined = msgspec.json.decode(data, type=_DefinedPack)
    except (InvalidValueError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"its {PACK_BLOB} cannot be read: {error}") from error
    if defined.gatemark > PACK_VERSION:
        raise OtherRulesError(f"its pack {newer_format(f'gatemark.pack/{defined.gatemark}')}")
    return {suite.kind for suite in defined.suites if suite.evidence is not None}


def is_of_this_build(result: Result) -> bool:
    """Whether this very build made a result; one that does not say gets no excuse."""
    return result.runtime.get("gatemark") in (None, gatemark.__version__)


def _check_version(subject: str, version: int, result: Result) -> None:
    is_own_build = is_of_this_build(result)
    if subject in _OWN:
        _OWN[subject].check(version, is_own_build=is_own_build)
        return
    exam = suites().find(subject)
    if not isinstance(exam, ExamSuite):
        raise OtherRulesError(
            f"recorded under {subject} rules {version}, not decided again: "
            f"no exam called {subject!r} is installed"
        )
    # The version of Gatemark says nothing about which version of another package ran.
    exam.rules_versions.check(version, is_own_build=is_own_build and exam.is_built_in)
