"""Errors and exit codes. Every error class has the exit code of a command that raises it."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes users script against; the numbers are a contract."""

    PASS = 0
    FAIL = 1
    BAD_INPUT = 2
    INCONCLUSIVE = 3
    INTEGRITY = 4
    INTERNAL = 5
    """A bug of Gatemark; says nothing about what was judged."""


class GatemarkError(Exception):
    """Base class of all errors that Gatemark raises on purpose."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT

    def lines(self) -> tuple[str, ...]:
        """Return the lines to print, one per problem."""
        return (str(self),)


class UsageError(GatemarkError):
    """A wrong call: contradicting options, or an unknown name."""


class UnknownNameError(UsageError):
    """A name that does not exist."""


class InvalidValueError(GatemarkError, ValueError):
    """A value that a type must never hold.

    Also a ValueError, so that a decoder reports it with its path.
    """


class BadInputError(GatemarkError):
    """Bad input, with every problem found and not only the first."""

    def __init__(self, problems: tuple[str, ...] | str, *, unlisted_count: int = 0) -> None:
        self.problems = (problems,) if isinstance(problems, str) else problems
        if not self.problems:
            raise InvalidValueError("a BadInputError needs at least one problem")
        self.unlisted_count = unlisted_count
        super().__init__(self.problems[0])

    def lines(self) -> tuple[str, ...]:
        if not self.unlisted_count:
            return self.problems
        return (*self.problems, f"and {self.unlisted_count} more (raise --max-errors to see them)")


class OutageError(BadInputError):
    """The store cannot be reached or cannot take anything in just now; try again later."""


class WorkerLostError(GatemarkError):
    """A worker was lost with its part of the work; the rest cannot be judged."""

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE


class UnavailableError(GatemarkError):
    """Raise this in a function that a pack calls, when a service behind it is down.

    The item could not be asked: that does not count as an answer, so the verdict is inconclusive.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE


class RefusedError(GatemarkError):
    """A well-formed action that the rules do not allow; ``details`` has one line per reason."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAIL

    def __init__(self, message: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.details = details

    def lines(self) -> tuple[str, ...]:
        return (str(self), *self.details)


class NotAllowedError(RefusedError):
    """The caller lacks permission."""


class ConflictError(RefusedError):
    """Someone else wrote first. Nothing was written; reload and try again."""


class IntegrityError(GatemarkError):
    """Something sealed does not verify."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTEGRITY


class NewerFormatError(GatemarkError):
    """A stored format that only a newer build knows; this one cannot judge it."""

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE


class OtherRulesError(GatemarkError):
    """A decision under rules of another version; it is checked as recorded, not decided again."""

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE


class IncomparableError(GatemarkError):
    """Two things that cannot be compared; nothing can be concluded."""

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, differences: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.differences = differences

    def lines(self) -> tuple[str, ...]:
        return (str(self), *self.differences)


def not_installed(needed_by: str, missing: str, extra: str) -> str:
    """Say what needs which package, and how to install it."""
    return (
        f"{needed_by} {missing}, which is not installed: pip install 'gatemark[{extra}]' "
        f"(in a checkout: pip install '.[{extra}]')"
    )
