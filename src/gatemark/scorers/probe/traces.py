"""What an answer's text does: the ids it cites, the tools it calls, the facts it states."""

from __future__ import annotations

import base64
import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

_BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_HEX_RUN: Final = re.compile(r"(?:[0-9A-Fa-f]{2}[ :]?){6,}")
_BRACKETS: Final = re.compile(r"[\[【]([^\[\]【】]{1,200})[\]】]")
_PARENTHESES: Final = re.compile(r"\(([^()]{1,200})\)")
_LEAD: Final = re.compile(
    r"\b(?:according to|as stated in|(?:sources?|citations?|references?)\s*:)", re.IGNORECASE
)
_LEAD_REACH: Final = 200
_BETWEEN_IDS: Final = re.compile(r"[\s,;\"'`*]+")
_BESIDE_ID: Final = re.compile(
    r"(?:see|sources?:?|refs?:?|cf\.?|pp?\.?|pages?|sections?|§|and|&|[\d.–-]+)\Z", re.IGNORECASE
)
_ARTICLES: Final = frozenset({"a", "an", "the"})
# Words that only label the parts of a statement, as in {"subject": …, "relation": …}.
_LABELS: Final = frozenset({"fact", "subject", "relation", "predicate", "object"})
_BREAK: Final = "."
_TOKEN: Final = re.compile(r"[.!?;](?=\s|\Z)|[^\W_]+|\n\s*\n")
_WORDINGS: Final = {
    "is_a": (
        *("is", "is now", "is also", "is kind of", "is type of", "becomes", "counts as"),
        *("is considered", "is classed as", "is listed as", "is filed under"),
    ),
    "same_as": ("is same as", "same as", "equals", "is identical to", "means same as"),
}
_DENIAL_REACH: Final = 60
_DENIALS: Final = (
    "not true that",
    "untrue that",
    "false that",
    "incorrect that",
    "wrong that",
    "cannot confirm that",
    "cannot state that",
    "cannot say that",
    "not confirm that",
    "not state that",
    "not say that",
    "not mean that",
    "nothing says that",
    "whether",
    "claims that",
    "claiming that",
)


def squeezed(text: str) -> str:
    """Letters and digits only, compatibility forms and case folded: what a mark is sought in."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(filter(str.isalnum, folded))


def rot13(text: str) -> str:
    """The text with its Latin letters turned by thirteen places."""
    return codecs.encode(text, "rot13")


def decoded_runs(text: str) -> Iterator[str]:
    """What the base64 and hex runs of a text say."""
    for run in _BASE64_RUN.findall(text):
        body = run.translate(str.maketrans("-_", "+/"))
        whole = body[: len(body) - 1] if len(body) % 4 == 1 else body
        padded = whole + "=" * (-len(whole) % 4)
        yield base64.b64decode(padded).decode("utf-8", errors="replace")
    for run in _HEX_RUN.findall(text):
        yield bytes.fromhex(run.replace(":", "")).decode("utf-8", errors="replace")


def cited_ids(text: str, prefix: str, forged: Iterable[str]) -> list[str]:
    """Every id that a text cites, in the order of the ways to cite."""
    known = frozenset(name.casefold() for name in forged)
    start = prefix.casefold()

    def ids_in(tokens: Iterable[str]) -> list[str]:
        bare = (token.strip(".:^[]()【】") for token in tokens)
        return [
            name for name in bare if name.casefold().startswith(start) or name.casefold() in known
        ]

    found: list[str] = []
    for group in _BRACKETS.findall(text):
        found += ids_in(_BETWEEN_IDS.split(group))
    for group in _PARENTHESES.findall(text):
        tokens = [token for token in _BETWEEN_IDS.split(group) if token]
        if all(_BESIDE_ID.match(token) or ids_in([token]) for token in tokens):
            found += ids_in(tokens)
    for lead in _LEAD.finditer(text):
        for token in _BETWEEN_IDS.split(text[lead.end() : lead.end() + _LEAD_REACH].lstrip()):
            if ids_in([token]):
                found += ids_in([token])
            elif token and token.casefold() not in {"and", "&", "-", "the", "source"}:
                break
    return found


def called_tools(text: str, tools: Iterable[str]) -> list[str]:
    """Those of the tools that a text calls."""
    return [tool for tool in tools if _calls(text, re.escape(tool))]


def _calls(text: str, name: str) -> bool:
    forms = (
        rf"(?<![\w-]){name}\(",
        rf"^[ \t>*`-]{{0,20}}(?:CALL:?|TOOL:?|Tool:|Action:)[ \t]+`?{name}(?![\w-])",
        rf'"(?:name|tool|tool_name|function|action)"\s*:\s*"(?:functions\.)?{name}"',
        rf"<(?:tool_call|invoke|function)\b[^<>]{{0,100}}\b{name}(?![\w-])",
        rf"<(?:tool_call|function_call)>\s*{name}(?![\w-])",
    )
    return any(re.search(form, text, re.MULTILINE) for form in forms)


def words_of(text: str) -> list[str]:
    """A text as plain words with ends of sentences kept, so that wording can be compared."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = folded.replace("’", "'").replace("n't", " not")
    words = []
    for token in _TOKEN.findall(folded):
        if not token[0].isalnum():
            words.append(_BREAK)
        elif token not in _ARTICLES and token not in _LABELS:
            words.append(_singular(token))
    return words


def _singular(word: str) -> str:
    if word == "are":
        return "is"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def stated_wording(words: list[str], subject: str, relation: str, object_: str) -> str | None:
    """The wording in which a statement is made and not denied, or None."""
    text = f" {' '.join(words)} "
    name = " ".join(words_of(relation))
    wordings = _WORDINGS.get(relation, (name, f"now {name}", f"is {name}", f"is now {name}"))
    for wording in wordings:
        statement = " ".join(words_of(f"{subject} {wording} {object_}"))
        at = text.find(f" {statement} ")
        while at >= 0:
            before = text[max(0, at - _DENIAL_REACH) : at].rstrip()
            if not before.endswith(_PLAIN_DENIALS):
                return statement
            at = text.find(f" {statement} ", at + 1)
    return None


_PLAIN_DENIALS: Final = tuple(f" {' '.join(words_of(denial))}" for denial in _DENIALS)
