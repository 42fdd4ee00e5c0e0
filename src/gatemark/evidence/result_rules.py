"""Check the rules that a result names: whether this build can decide it again.

A result names the version of every set of rules that decided it: those of packs, of comparisons of
two logs, and of each exam. Every place that decides a result again, or lets something new rest on
it, asks ``check_result_rules`` first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import gatemark
from gatemark.core.errors import IntegrityError, OtherRulesError
from gatemark.core.result import PACK_BLOB, Result
from gatemark.core.rules import RulesVersions
from gatemark.evidence.exam import SCORE_PACK, ExamSuite, exam_suite, suites

PACK_RULES: Final = RulesVersions("pack")
"""Rules of packs: one pooled test, with a limit for each suite."""
COMPARE_RULES: Final = RulesVersions("compare")
"""Rules of sealed comparisons of two logs."""
_OWN: Final = {rules.subject: rules for rules in (PACK_RULES, COMPARE_RULES)}


def name_pack_rules(exam_kinds: Iterable[str]) -> dict[str, int]:
    """Return the versions of the rules that decide a pack with suites of these exams now."""
    exams = {kind: exam_suite(kind).rules_versions.current for kind in exam_kinds}
    return {PACK_RULES.subject: PACK_RULES.current, **exams}


def check_result_rules(result: Result) -> None:
    """Raise unless this build has all the rules that decided a result.

    (1) A result that does not name the rules of something that it holds is a forgery, and so is a
    version that was never released: IntegrityError. (2) Rules of another version, or of an exam
    that is not installed, raise OtherRulesError.
    """
    missing = sorted(_find_subjects(result) - result.rules.keys())
    if missing:
        raise IntegrityError(f"result {result.id} does not name its {missing[0]} rules")
    others = []
    for subject, version in sorted(result.rules.items()):
        try:
            _check_version(subject, version, result)
        except OtherRulesError as error:
            # A forged version of another subject must not hide behind this one.
            others.append(f"result {result.id}: {error}")
        except IntegrityError as error:
            raise IntegrityError(f"result {result.id}: {error}") from error
    if others:
        raise OtherRulesError(others[0])


def _find_subjects(result: Result) -> set[str]:
    """Return the sets of rules that a result of this form cannot do without."""
    if any(blob.name == PACK_BLOB for blob in result.blobs):
        exams = {
            account.checks["kind"]
            for account in result.evidence
            if {"suite", "kind", "arm"} <= account.checks.keys()
        }
        return {PACK_RULES.subject, *exams}
    name = result.pack.name
    if name.startswith(SCORE_PACK):
        return {name.removeprefix(SCORE_PACK)}
    return {COMPARE_RULES.subject} if name == COMPARE_RULES.subject else set()


def _check_version(subject: str, version: int, result: Result) -> None:
    # A result that does not say which build made it gets no excuse.
    is_own_build = result.runtime.get("gatemark") in (None, gatemark.__version__)
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
