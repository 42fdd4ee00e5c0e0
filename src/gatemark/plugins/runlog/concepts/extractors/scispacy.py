"""``scispacy``: a scispaCy model with its UMLS linker, if both are installed.

Nothing is ever downloaded: a model or a linker index that is not on this machine is an error.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from gatemark.core.canonical import digest
from gatemark.core.errors import UsageError
from gatemark.plugins.runlog.concepts.port import (
    CANDIDATES_MAX,
    Candidate,
    ExtractorPlugin,
    Mention,
    SourceChoices,
    SourceDescription,
)

DEFAULT_MODEL: Final = "en_core_sci_sm"
LINKER: Final = "umls"
LINKER_OPTIONS: Final = {
    "resolve_abbreviations": True,
    "linker_name": LINKER,
    "max_entities_per_mention": 10,
    "threshold": 0.7,
}


class PipelineSource:
    """The entities of a spaCy pipeline, with the candidates of its linker."""

    def __init__(self, pipeline: Callable[[str], Any], description: SourceDescription) -> None:
        self._pipeline = pipeline
        self._description = description

    def describe(self) -> SourceDescription:
        return self._description

    def find(self, text: str) -> Sequence[Mention]:
        return [
            Mention(
                entity.text,
                tuple(
                    Candidate(str(name), float(score))
                    for name, score in entity._.kb_ents[:CANDIDATES_MAX]
                ),
            )
            for entity in self._pipeline(text).ents
        ]


def _load(choices: SourceChoices) -> PipelineSource:
    if choices.lexicons:
        raise UsageError("extractor scispacy takes no lexicon")
    model = choices.model or DEFAULT_MODEL
    missing = [
        name for name in ("spacy", "scispacy", model) if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise UsageError(
            f"extractor scispacy needs {', '.join(missing)}, which is not installed; "
            "its models are not on PyPI, so install them from their own source first"
        )
    index = _find_linker_index()
    import spacy  # noqa: PLC0415 - only this source pays for it

    importlib.import_module("scispacy.linking")
    pipeline = spacy.load(model)
    pipeline.add_pipe("scispacy_linker", config=LINKER_OPTIONS)
    linker: Any = pipeline.get_pipe("scispacy_linker")
    return PipelineSource(
        pipeline,
        SourceDescription(
            name="scispacy",
            version=1,
            libraries={name: _read_version(name) for name in ("spacy", "scispacy")},
            linker=LINKER,
            knowledge_version=index.name,
            knowledge_digest=digest({"model": _read_version(model), "index": index.name}),
            concept_count=len(linker.kb.cui_to_entity),
            alias_count=len(linker.kb.alias_to_cuis),
            model=f"{model} {_read_version(model)}",
            resolves_abbreviations=True,
        ),
    )


def _find_linker_index() -> Path:
    """Return the linker's index on this machine, without downloading it."""
    folder = Path(importlib.import_module("scispacy.file_cache").DATASET_CACHE)
    found = sorted(folder.glob("*nmslib_index.bin")) if folder.is_dir() else []
    if not found:
        raise UsageError(f"extractor scispacy needs the {LINKER} linker index in {folder}")
    return found[-1]


def _read_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


EXTRACTOR = ExtractorPlugin(
    name="scispacy",
    summary="A scispaCy model with its UMLS linker, only where both are installed.",
    load=_load,
)
