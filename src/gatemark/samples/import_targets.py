"""What ``gatemark import --to NAME`` can write besides samples.

A feature offers an ``ImportTarget`` named ``IMPORT_TARGET`` in its module ``import_target``. The
entry point of a plugin is called ``import_target.NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Protocol

import msgspec

from gatemark.core.registry import Registry, feature_modules


class Imported(Protocol):
    """What an import wrote; the fields of the struct are the keys of the JSON document."""

    @property
    def output(self) -> str | None:
        """Where it was written; None if nothing was."""

    @property
    def refusals(self) -> tuple[str, ...]:
        """What could not be read, and why."""


class Convert(Protocol):
    """Converts logs; writes nothing if one cannot be read, unless ``exclude_bad`` says so."""

    def __call__(
        self,
        paths: tuple[str, ...],
        *,
        tool: str,
        output: str | None,
        redact: bool,
        exclude_bad: bool,
    ) -> Imported: ...


class ImportTarget(msgspec.Struct, frozen=True):
    """A kind of record that logs are converted to.

    ``summary`` says what is read and what the records are for; ``lines`` describes what was
    written.
    """

    name: str
    summary: str
    convert: Convert
    lines: Callable[[Any], Iterator[str]]


@cache
def import_targets() -> Registry[ImportTarget]:
    """Return the registry of what logs are converted to."""
    return Registry(
        kind="import target",
        places=feature_modules("import_target"),
        attribute="IMPORT_TARGET",
        plugin_type=ImportTarget,
        name_of=lambda target: target.name,
    )
