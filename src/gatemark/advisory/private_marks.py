"""What looks private in a text: paths of people and systems, secrets, addresses, numbers."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from typing import Final

_MARKS: Final = {
    "private path": re.compile(
        r"(?:^|[\s\"'(=:])(?:file://|~/|/(?:home|root|Users|etc|var|mnt|srv|private|Volumes)/)"
        r"|[A-Za-z]:\\(?:Users|Documents)",
    ),
    "e-mail address": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"),
    "phone number": re.compile(r"(?<![\w.])(?:\+|00)?\d[\d ()/-]{7,}\d(?![\w.])"),
}
_MIN_PHONE_DIGITS: Final = 9


def private_marks(text: str) -> tuple[str, ...]:
    """The kinds of private things a text seems to hold, never the things."""
    found = [kind for kind, pattern in _MARKS.items() if _matches(kind, pattern, text)]
    if any(pattern.search(text) for pattern in _secret_patterns()):
        found.append("secret")
    return tuple(found)


def _matches(kind: str, pattern: re.Pattern[str], text: str) -> bool:
    if kind != "phone number":
        return pattern.search(text) is not None
    return any(
        sum(character.isdigit() for character in match[0]) >= _MIN_PHONE_DIGITS
        for match in pattern.finditer(text)
    )


@cache
def _secret_patterns() -> tuple[re.Pattern[str], ...]:
    """The patterns of every detector that detect-secrets brings."""
    plugins = importlib.import_module("detect_secrets.plugins")
    base = importlib.import_module("detect_secrets.plugins.base").RegexBasedDetector
    found: list[re.Pattern[str]] = []
    for module in pkgutil.iter_modules(plugins.__path__):
        loaded = importlib.import_module(f"detect_secrets.plugins.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, base) and value is not base:
                denied = getattr(value, "denylist", ())
                found.extend(denied if isinstance(denied, list | tuple) else ())
    return tuple(found)
