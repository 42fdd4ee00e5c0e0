"""Versions of rules: which decisions this build can decide again, and which it only records.

A decision names the version of the rules that made it. Rules of earlier versions are not kept: a
decision of another version is checked as recorded (bytes, chain, signatures) and not decided again.
"""

from __future__ import annotations

import msgspec

from gatemark.core.errors import IntegrityError, OtherRulesError


class RulesVersions(msgspec.Struct, frozen=True):
    """The version of one set of rules that decides now, and every version that was released."""

    subject: str
    current: int = 1
    released: frozenset[int] = frozenset({1})

    def check(self, recorded: object, *, is_own_build: bool = False) -> None:
        """Raise unless this build can decide again what was decided under a recorded version.

        (1) A version that was never released is a forgery: IntegrityError. So is any but the
        current one in a document that says that this very build made it. (2) Every other version
        raises OtherRulesError: it belongs to an earlier release, or to a newer one.
        """
        if type(recorded) is not int or recorded < 1:
            raise IntegrityError(f"{self.subject} rules {recorded!r} do not exist")
        if recorded == self.current:
            return
        if recorded <= self.current and recorded not in self.released:
            raise IntegrityError(f"{self.subject} rules {recorded} were never released")
        if is_own_build:
            raise IntegrityError(
                f"{self.subject} rules {recorded} are not the rules of the build that it names, "
                f"which has rules {self.current}"
            )
        raise OtherRulesError(self.describe_other(recorded))

    def describe_other(self, recorded: int) -> str:
        """Return what is said of a decision of another version."""
        return (
            f"recorded under {self.subject} rules {recorded}, not decided again: "
            f"this build has rules {self.current}"
        )
