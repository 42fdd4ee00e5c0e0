"""A suite kind, and an exam as one: which files it reads and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Final

import msgspec

import gatemark
from gatemark.core.errors import UsageError
from gatemark.core.fold import AnyMeasure
from gatemark.core.registry import Registry
from gatemark.core.rules import RulesVersions
from gatemark.evidence.exam import AnyExam, ExamOutcome, ExamRun


class EvidenceRole(msgspec.Struct, frozen=True):
    """A file that an exam reads. A pack names it by ``name``, a command by ``--name FILE``.

    Without a ``required`` file, a result cannot be derived again. A ``positional`` file needs no
    option. ``many`` files may share a role. In a ``named`` role, every file brings a name of its
    own (NAME=FILE). A file of an ``alone`` role is the only one of its run.
    """

    name: str
    help: str
    required: bool = False
    positional: bool = False
    many: bool = False
    named: bool = False
    alone: bool = False


RECORDS: Final = EvidenceRole("records", "Evidence, one record per line.", positional=True)


class DocumentType(msgspec.Struct, frozen=True):
    """A document that an exam writes, for ``gatemark schema``."""

    name: str
    summary: str
    type: type[msgspec.Struct]


class Suite(msgspec.Struct, frozen=True):
    """A suite kind: its name, what it is for, and its options."""

    kind: str
    summary: str
    options: type[msgspec.Struct]

    @property
    def is_built_in(self) -> bool:
        """Whether the kind is part of this build, and not of another distribution."""
        return self.options.__module__.partition(".")[0] == gatemark.__name__


class ExamSuite(Suite, frozen=True):
    """An exam as a plugin: the whole declaration.

    ``gatemark score``, the suite kind in packs, sealing and ``ledger verify --rescore`` follow from
    it. ``examine`` runs the exam over its files; without it, the records of one role are folded.
    ``role_options`` gives the options that follow from which roles have a file. ``own_options`` say
    what no record proves, so that only Gatemark's own features set them, and no pack may. ``rules``
    are the versions of its rules (default: version 1 only); results name the current one.
    """

    build: Callable[[Any, Registry[AnyMeasure]], AnyExam]
    roles: tuple[EvidenceRole, ...] = (RECORDS,)
    examine: Callable[[ExamRun], ExamOutcome] | None = None
    role_options: Callable[[Collection[str]], dict[str, object]] | None = None
    own_options: Mapping[str, str] = {}
    documents: tuple[DocumentType, ...] = ()
    rules: RulesVersions | None = None

    @property
    def rules_versions(self) -> RulesVersions:
        """The versions of the exam's rules."""
        return self.rules or RulesVersions(self.kind)

    @property
    def is_built_in(self) -> bool:
        return self.build.__module__.partition(".")[0] == gatemark.__name__


@cache
def suites() -> Registry[Suite]:
    """Return the registry of suite kinds."""
    return Registry(
        kind="suite",
        places=("gatemark.packs.suites.*", "gatemark.checks.*.exam"),
        attribute="SUITE",
        plugin_type=Suite,
        name_of=lambda suite: suite.kind,
    )


def exam_suite(kind: str) -> ExamSuite:
    """Return the declaration of an exam."""
    suite = suites().get(kind)
    if not isinstance(suite, ExamSuite):
        raise UsageError(f"suite {kind} does not read evidence files")
    return suite
