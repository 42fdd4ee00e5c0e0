"""The extractor interface: a source of mentions, and the settings that turn them into concepts.

A mention is a piece of text with ranked candidates. The same rules turn the mentions of every
source into concepts, so two sources differ only in what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from gatemark.core.canonical import digest, digest_bytes

Representation = Literal["cui", "surface"]
Normalisation = Literal["uppercase", "lowercase", "none"]
NOT_USED = "none"
"""Value of the run log's extractor fields for a part that did not run."""

CACHED_TEXTS = 1024
CANDIDATES_MAX = 64
"""Maximum number of candidates per mention, and so the largest useful cut."""
SCORE_DIGITS = 6
"""Scores are rounded before comparison, so that the last bit of a float never picks a concept."""


class Candidate(NamedTuple):
    """A concept that a mention may stand for, with a score in [0, 1]."""

    id: str
    score: float


class Mention(NamedTuple):
    """A piece of text and its candidate concepts."""

    surface: str
    candidates: tuple[Candidate, ...]


class ConceptSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How mentions become concepts."""

    cui_score_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.7
    max_k: Annotated[int, Meta(ge=1, le=CANDIDATES_MAX)] = 10
    min_entity_len: Annotated[int, Meta(ge=1, le=1000)] = 3
    concept_representation: Representation = "cui"
    cui_normalization: Normalisation = "uppercase"


class Stoplists(msgspec.Struct, frozen=True):
    """Mentions and concepts to ignore, and the digests of the lists."""

    entities: frozenset[str] = frozenset()
    cuis: frozenset[str] = frozenset()
    stop_entities_hash: str = digest_bytes(b"")
    stop_cuis_hash: str = digest_bytes(b"")
    stoplist_df_report_hash: str | None = None
    generated_at: str | None = None
    generated_by_commit: str | None = None


class SourceDescription(msgspec.Struct, frozen=True):
    """What a source consists of: ``libraries`` are versions, ``knowledge_digest`` is of its data.

    ``linker`` and ``resolves_abbreviations`` fill the run log's fields of the same meaning.
    """

    name: str
    version: int
    libraries: dict[str, str]
    linker: str
    knowledge_version: str | None
    knowledge_digest: str
    concept_count: int
    alias_count: int
    model: str = NOT_USED
    resolves_abbreviations: bool = False


class MentionSource(Protocol):
    """Finds mentions in text."""

    def describe(self) -> SourceDescription:
        """Return what this source consists of."""

    def find(self, text: str) -> Sequence[Mention]:
        """Return the mentions of a text, in any order."""


class SourceChoices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a source: lexicon files, or the name of a model."""

    lexicons: tuple[str, ...] = ()
    model: str | None = None


class ExtractorPlugin(msgspec.Struct, frozen=True):
    """An extractor by name; ``load`` raises an error if a part of it is missing."""

    name: str
    summary: str
    load: Callable[[SourceChoices], MentionSource]


class ConceptExtractor:
    """Extracts concepts from texts: one source with settings and stoplists."""

    def __init__(
        self,
        source: MentionSource,
        settings: ConceptSettings | None = None,
        stoplists: Stoplists | None = None,
    ) -> None:
        self.source = source
        self.description = source.describe()
        self.settings = settings or ConceptSettings()
        self.stoplists = stoplists or Stoplists()
        self._cached = lru_cache(CACHED_TEXTS)(self._extract_concepts)

    def concepts(self, text: str) -> frozenset[str]:
        """Return the set of concepts in a text; cached by text."""
        return self._cached(text)

    def cuis_and_surfaces(self, text: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return both representations at once, for counting the texts with each."""
        kept = self._filter_mentions(text)
        return _link_mentions(kept, self.settings, self.stoplists), frozenset(kept)

    def identity(self) -> dict[str, object]:
        """Return what must be equal for two extractors to find the same concepts."""
        return {
            "source": msgspec.to_builtins(self.description),
            "settings": msgspec.to_builtins(self.settings),
            "stop_entities": sorted(self.stoplists.entities),
            "stop_cuis": sorted(self.stoplists.cuis),
        }

    @property
    def digest(self) -> str:
        """The digest of the identity."""
        return digest(self.identity())

    def _extract_concepts(self, text: str) -> frozenset[str]:
        kept = self._filter_mentions(text)
        if self.settings.concept_representation == "surface":
            return frozenset(kept)
        return _link_mentions(kept, self.settings, self.stoplists)

    def _filter_mentions(self, text: str) -> dict[str, set[tuple[Candidate, ...]]]:
        """Return mentions that are long enough and not stopped, by their lower-case surface."""
        if not text.strip():
            return {}
        kept: dict[str, set[tuple[Candidate, ...]]] = {}
        for mention in self.source.find(text):
            surface = mention.surface.strip().lower()
            if len(surface) >= self.settings.min_entity_len and (
                surface not in self.stoplists.entities
            ):
                kept.setdefault(surface, set()).add(mention.candidates)
        return kept


def _link_mentions(
    mentions: dict[str, set[tuple[Candidate, ...]]], settings: ConceptSettings, stoplists: Stoplists
) -> frozenset[str]:
    """Link each mention: threshold, order by score and then id, cut, and only then the stoplist."""
    return frozenset(
        name
        for rankings in mentions.values()
        for candidates in rankings
        for name in rank_candidates(candidates, settings)
        if name.upper() not in stoplists.cuis
    )


@lru_cache(1 << 16)
def rank_candidates(
    candidates: tuple[Candidate, ...], settings: ConceptSettings
) -> tuple[str, ...]:
    """Return the ids linked to a mention, best first, each once."""
    normalise = _NORMALISERS[settings.cui_normalization]
    best: dict[str, float] = {}
    for candidate in candidates:
        score = round(candidate.score, SCORE_DIGITS)
        if score >= settings.cui_score_threshold:
            name = normalise(candidate.id)
            best[name] = max(score, best.get(name, 0.0))
    order = sorted(best, key=lambda name: (-best[name], name))
    return tuple(order[: settings.max_k])


_NORMALISERS: dict[Normalisation, Callable[[str], str]] = {
    "uppercase": str.upper,
    "lowercase": str.lower,
    "none": str,
}


def describe_extractor(extractor: ConceptExtractor) -> dict[str, object]:
    """Return the ``concept_extractor`` object of a run log, from what actually ran."""
    found, settings = extractor.description, extractor.settings
    is_scispacy = "scispacy" in found.libraries
    return {
        "spacy_version": found.libraries.get("spacy", NOT_USED),
        "scispacy_version": found.libraries.get("scispacy", NOT_USED),
        "scispacy_model": found.model if is_scispacy else NOT_USED,
        "linker_name": found.linker,
        "linker_kb_version": found.knowledge_version,
        "linker_resolve_abbreviations": found.resolves_abbreviations,
        "linker_max_entities_per_mention": settings.max_k,
        "linker_threshold": settings.cui_score_threshold,
        **msgspec.structs.asdict(settings),
        "entity_types_kept": ["ALL"],
        "stop_entities_count": len(extractor.stoplists.entities),
        "stop_cuis_count": len(extractor.stoplists.cuis),
    }


def describe_extractor_provenance(extractor: ConceptExtractor) -> dict[str, object]:
    """Return name, version, digests and settings of what actually ran, for the provenance."""
    found = extractor.description
    return {
        "name": found.name,
        "version": found.version,
        "digest": extractor.digest,
        "libraries": found.libraries,
        "linker_name": found.linker,
        "knowledge_base_version": found.knowledge_version,
        "knowledge_base_digest": found.knowledge_digest,
        "concept_count": found.concept_count,
        "alias_count": found.alias_count,
        "model": found.model,
        "settings": msgspec.to_builtins(extractor.settings),
        "stop_entities_hash": extractor.stoplists.stop_entities_hash,
        "stop_cuis_hash": extractor.stoplists.stop_cuis_hash,
        "stop_entities_count": len(extractor.stoplists.entities),
        "stop_cuis_count": len(extractor.stoplists.cuis),
        "run_meta": describe_extractor(extractor),
    }
