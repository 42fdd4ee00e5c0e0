"""One error tree. Every class knows how the command that meets it must end."""

from __future__ import annotations

from typing import ClassVar

from gatemark.core.exits import ExitCode


class GatemarkError(Exception):
    """The base of everything Gatemark raises on purpose."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT

    def lines(self) -> tuple[str, ...]:
        """What to print, one finding per line."""
        return (str(self),)


class UsageError(GatemarkError):
    """The call itself makes no sense: flags that contradict, a name nobody knows."""


class UnknownNameError(UsageError):
    """Nothing here is called so."""


class InvalidValueError(GatemarkError, ValueError):
    """A noun was asked to hold something it must never hold.

    Also a ValueError, so that a decoder which builds the noun reports it with its path.
    """


class BadInputError(GatemarkError):
    """Input that cannot be trusted; carries every problem found, not only the first."""

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


class WorkerLostError(GatemarkError):
    """A worker went away with its part of the work; what is left cannot be judged."""

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE


class RefusedError(GatemarkError):
    """A well-formed act that the rules do not allow; ``details`` say more, one per line."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAIL

    def __init__(self, message: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.details = details

    def lines(self) -> tuple[str, ...]:
        return (str(self), *self.details)


class NotAllowedError(RefusedError):
    """The one who asks may not do this, whatever else holds."""


class ConflictError(RefusedError):
    """Someone else wrote first. Nothing was written; look again and try anew."""


class IntegrityError(GatemarkError):
    """Something sealed does not verify."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTEGRITY


class NewerFormatError(GatemarkError):
    """Something stored has a format that only a newer build knows: this one cannot judge it."""

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE


class IncomparableError(GatemarkError):
    """Two things that were to be compared are not about the same; nothing can be concluded."""

    exit_code: ClassVar[ExitCode] = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, differences: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.differences = differences

    def lines(self) -> tuple[str, ...]:
        return (str(self), *self.differences)
