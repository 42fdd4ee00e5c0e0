"""Secrets in texts, by the rules of ``detect-secrets``: what kind, never which.

The detectors that know one issuer's format are taken as they are. The two that look for randomness
are asked about words that digests and ids do not explain.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from typing import Any, Final

# Every dotted address would count as one; addresses are no secrets.
_NOT_SECRET: Final = frozenset(("IPPublicDetector",))
_EXPLAINED: Final = re.compile(
    r"sha256:[0-9a-f]{64}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])"
)
_HEX_WORD: Final = re.compile(r"(?<![0-9A-Za-z+/_-])[0-9a-fA-F]{32,}(?![0-9A-Za-z+/_-])")
_MIXED_WORD: Final = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
_LONG: Final = 32
_KEY_BLOCK: Final = re.compile(r"BEGIN [A-Z0-9 ]*PRIVATE KEY")


def secret_kinds(text: str) -> tuple[str, ...]:
    """Which kinds of secrets a text seems to hold."""
    regexes, keyword, entropies = _detectors()
    found = [
        detector.secret_type
        for detector in regexes
        if any(pattern.search(text) for pattern in detector.denylist)
    ]
    if any(keyword.analyze_string(text, _keyword_patterns())):
        found.append(keyword.secret_type)
    if _KEY_BLOCK.search(text):
        found.append("Private Key")
    rest = _EXPLAINED.sub(" ", text)
    found.extend(
        entropy.secret_type
        for entropy, words in zip(
            entropies, (_random_words(rest), _HEX_WORD.findall(rest)), strict=True
        )
        if any(entropy.calculate_shannon_entropy(word) > entropy.entropy_limit for word in words)
    )
    return tuple(dict.fromkeys(found))


def _random_words(text: str) -> list[str]:
    """Words that could be random: long, or of both cases; names in small letters are names."""
    return [
        word
        for word in _MIXED_WORD.findall(text)
        if len(word) >= _LONG or (word != word.lower() and word != word.upper())
    ]


@cache
def _detectors() -> tuple[tuple[Any, ...], Any, tuple[Any, Any]]:
    """The detectors, loaded when the first text is suspicious: they bring an HTTP client along."""
    plugins = importlib.import_module("detect_secrets.plugins")
    base = importlib.import_module("detect_secrets.plugins.base").RegexBasedDetector
    regexes = []
    for found in pkgutil.iter_modules(plugins.__path__):
        module = importlib.import_module(f"detect_secrets.plugins.{found.name}")
        regexes += [
            value()
            for name, value in sorted(vars(module).items())
            if isinstance(value, type)
            and issubclass(value, base)
            and value is not base
            and value.__module__ == module.__name__
            and name not in _NOT_SECRET
        ]
    entropy = importlib.import_module("detect_secrets.plugins.high_entropy_strings")
    keyword = importlib.import_module("detect_secrets.plugins.keyword")
    return (
        tuple(regexes),
        keyword.KeywordDetector(),
        (entropy.Base64HighEntropyString(), entropy.HexHighEntropyString()),
    )


@cache
def _keyword_patterns() -> Any:
    """The patterns for settings files: they find a password without quotes around it."""
    keyword = importlib.import_module("detect_secrets.plugins.keyword")
    return keyword.CONFIG_DENYLIST_REGEX_TO_GROUP
