"""Find secrets in texts: keys, tokens and passwords."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

# Every dotted address would count as one; addresses are no secrets.
_NOT_SECRET: Final = frozenset(("IPPublicDetector",))
ID_OR_DIGEST: Final = re.compile(
    r"sha256:[0-9a-f]{64}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])"
)
_WORD: Final = re.compile(r"[A-Za-z0-9+/_=-]{11,}")
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,}")
_LONG: Final = 32
_MIXED: Final = 20
_NAME: Final = (
    r"(?:[A-Z]?[a-z]{1,20}[0-9]{0,6}[a-z]{0,3}|[A-Z]{1,12}[0-9]{0,6}[a-z]{0,3}"
    r"|[0-9]{1,8}(?:[A-Za-z]{1,3}[0-9]{0,4})?)"
)
ORDINARY: Final = rf"[+/_=-]*{_NAME}(?:[+/_=-]+{_NAME})*[+/_=-]*"
"""Words made of names, such as paths, models and codes: nobody's secret is spelled like this."""
_ORDINARY: Final = re.compile(ORDINARY)
KEY_MARKS: Final = (
    r"://[^/\s]*@|eyJ|xox|k_live_|-us[0-9]|gl[a-z]{2,5}-|gh[pousr]_|hooks\.slack|SG\.|sq0csp|T3BlbkFJ"
    r"|pypi-Ag|authToken|PRIVATE KEY|PuTTY|[0-9]{8}:|\.[\w-]{6}\.[\w-]{27}"
)
NAMES_OF_SECRETS: Final = r"(?i:key|pass|pwd|pw|secret|token|contrase)"
GIVEN_VALUE: Final = r"(?:[:='\"(`]|[A-Za-z0-9_+/-]{24})"
_MARKS: Final = re.compile(KEY_MARKS)
_NAMED: Final = re.compile(NAMES_OF_SECRETS)
_GIVEN: Final = re.compile(GIVEN_VALUE)
_KEY_BLOCK: Final = re.compile(r"BEGIN [A-Z0-9 ]*PRIVATE KEY")


def may_hold_secret(text: str) -> bool:
    """Return whether a text may contain a secret; never misses any."""
    if not text.isascii() or _MARKS.search(text):
        return True
    if _NAMED.search(text) and _GIVEN.search(text):
        return True
    return any(_find_odd_words(text))


def secret_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of secrets that a text seems to contain."""
    regexes, keyword, (base64, hexadecimal) = _load_detectors()
    found = [
        detector.secret_type
        for detector in regexes
        if any(pattern.search(text) for pattern in detector.denylist)
    ]
    if any(keyword.analyze_string(text, _load_keyword_patterns())):
        found.append(keyword.secret_type)
    if _KEY_BLOCK.search(text):
        found.append("Private Key")
    for word in _find_odd_words(text):
        mixed = word not in (word.lower(), word.upper())
        if (len(word) >= _LONG or (mixed and len(word) >= _MIXED)) and _is_random(word, base64):
            found.append(base64.secret_type)
        if any(_is_random(digits, hexadecimal) for digits in _HEX.findall(word)):
            found.append(hexadecimal.secret_type)
    return tuple(dict.fromkeys(found))


def _find_odd_words(text: str) -> Iterator[str]:
    """Yield long or capitalised words that are neither ids nor made of names."""
    for word in _WORD.findall(ID_OR_DIGEST.sub(" ", text)):
        if (len(word) >= _LONG or word != word.lower()) and not _ORDINARY.fullmatch(word):
            yield word


def _is_random(word: str, detector: Any) -> bool:
    return bool(detector.calculate_shannon_entropy(word) > detector.entropy_limit)


@cache
def _load_detectors() -> tuple[tuple[Any, ...], Any, tuple[Any, Any]]:
    """Return the detectors. They import an HTTP client, so they are loaded when first needed."""
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
def _load_keyword_patterns() -> object:
    """Return the patterns for settings files, which find passwords without quotes."""
    keyword = importlib.import_module("detect_secrets.plugins.keyword")
    return keyword.CONFIG_DENYLIST_REGEX_TO_GROUP
