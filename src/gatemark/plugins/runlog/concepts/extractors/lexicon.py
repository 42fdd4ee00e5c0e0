"""``lexicon``: concepts by name from JSON Lines files, or from the small built-in list.

Names match whole words in any case, longest first; one automaton finds all of them in one pass.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, UsageError, not_installed
from gatemark.evidence.small_file import read_small_file
from gatemark.plugins.runlog.concepts.port import (
    CANDIDATES_MAX,
    Candidate,
    ExtractorPlugin,
    Mention,
    SourceChoices,
    SourceDescription,
)

BUNDLED: Final = "lexicon.jsonl"
ENTRIES_MAX: Final = 1_000_000
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
PROBLEMS_MAX: Final = 20

Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"\w")]


class LexiconEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One concept: its id, its name and its synonyms."""

    id: Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    name: Name
    aliases: tuple[Name, ...] = ()


def read_lexicon(data: bytes, place: str) -> list[LexiconEntry]:
    """Read the entries of a lexicon; raise with every problem and its line."""
    decode = msgspec.json.Decoder(LexiconEntry).decode
    entries: list[LexiconEntry] = []
    problems: list[str] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entries.append(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            problems.append(f"{place}:{number}: {error}")
    if len(entries) > ENTRIES_MAX:
        problems.append(f"{place}: holds {len(entries)} entries, at most {ENTRIES_MAX} are allowed")
    if not entries and not problems:
        problems.append(f"{place}: holds no entries")
    if problems:
        hidden = max(0, len(problems) - PROBLEMS_MAX)
        raise BadInputError(tuple(problems[:PROBLEMS_MAX]), unlisted_count=hidden)
    return entries


class LexiconSource:
    """Finds the names of a lexicon; each mention has its concepts with score 1."""

    def __init__(self, entries: Sequence[LexiconEntry], *, is_bundled: bool) -> None:
        import ahocorasick  # noqa: PLC0415 - only this source pays for it

        names: dict[str, set[str]] = {}
        for entry in entries:
            for name in (entry.name, *entry.aliases):
                names.setdefault(_normalise_text(name), set()).add(entry.id)
        self._automaton: Any = ahocorasick.Automaton()
        for name, ids in names.items():
            found = tuple(Candidate(each, 1.0) for each in sorted(ids)[:CANDIDATES_MAX])
            self._automaton.add_word(name, Mention(name, found))
        self._automaton.make_automaton()
        self._description = SourceDescription(
            name="lexicon",
            version=1,
            libraries={"pyahocorasick": version("pyahocorasick")},
            linker="bundled_lexicon" if is_bundled else "user_lexicon",
            knowledge_version=None,
            knowledge_digest=digest([msgspec.to_builtins(entry) for entry in entries]),
            concept_count=len({entry.id for entry in entries}),
            alias_count=len(names),
        )

    def describe(self) -> SourceDescription:
        return self._description

    def find(self, text: str) -> Sequence[Mention]:
        return list(_find_longest(self._automaton, _normalise_text(text)))


def _normalise_text(text: str) -> str:
    """Return lower-case text with single spaces."""
    return " ".join(text.lower().split())


def _find_longest(automaton: Any, text: str) -> Iterator[Mention]:
    """Yield the mentions at word boundaries; of overlapping ones, the first and longest."""
    found = []
    for last, mention in automaton.iter(text):
        start, end = last + 1 - len(mention.surface), last + 1
        if _is_edge(text, start) and _is_edge(text, end):
            found.append((start, -end, mention))
    found.sort(key=lambda match: match[:2])
    taken_until = 0
    for start, minus_end, mention in found:
        if start >= taken_until:
            taken_until = -minus_end
            yield mention


def _is_edge(text: str, place: int) -> bool:
    return place in (0, len(text)) or not (
        _is_in_word(text[place - 1]) and _is_in_word(text[place])
    )


def _is_in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _load(choices: SourceChoices) -> LexiconSource:
    if choices.model:
        raise UsageError("extractor lexicon takes no model")
    if importlib.util.find_spec("ahocorasick") is None:
        raise UsageError(not_installed("extractor lexicon needs", "pyahocorasick", "concepts"))
    entries: list[LexiconEntry] = []
    for path in choices.lexicons:
        entries += read_lexicon(read_small_file(path, FILE_BYTES_MAX), path)
    if not choices.lexicons:
        bundled = files("gatemark.plugins.runlog.concepts").joinpath(BUNDLED)
        entries = read_lexicon(bundled.read_bytes(), BUNDLED)
    return LexiconSource(entries, is_bundled=not choices.lexicons)


EXTRACTOR = ExtractorPlugin(
    name="lexicon",
    summary="Names from JSON Lines files, or from a small built-in list (extra: concepts).",
    load=_load,
)
