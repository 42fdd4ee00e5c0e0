"""Looking fixtures over before anything is asked: nothing private, nothing twice, all as pinned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gatemark.advisory.audio import sound_of
from gatemark.advisory.fixtures import Fixture, HalfManifest
from gatemark.advisory.lanes import VOICE
from gatemark.advisory.references import TaxonomyOf
from gatemark.core.advisory import Taxonomy
from gatemark.core.errors import BadInputError
from gatemark.hygiene.private_text import PrivateTextRules, PrivateTextScan

MAX_TEXT_CHARS: Final = 2000

Placed = tuple[str, Fixture]
"""A fixture and where it stands."""


def lint_fixtures(rows: Sequence[Placed], taxonomy_of: TaxonomyOf) -> list[str]:
    """Every problem of a fixture file, with its place; nothing of a payload is repeated."""
    problems: list[str] = []
    ids: dict[str, str] = {}
    payloads: dict[str, str] = {}
    # Free text may be long here: a fixture is content, and its length has its own rule.
    scan = PrivateTextScan(
        PrivateTextRules(
            code_chars_max=MAX_TEXT_CHARS,
            note_chars_max=MAX_TEXT_CHARS,
            code_words_max=MAX_TEXT_CHARS,
        )
    )
    for place, fixture in rows:
        name = fixture.fixture_id
        if name in ids:
            problems.append(f"{place}: fixture_id {name!r} was seen before at {ids[name]}")
        elif fixture.content_hash in payloads:
            twin = payloads[fixture.content_hash]
            problems.append(f"{place}: {name} has the payload of {twin}")
        ids.setdefault(name, place)
        payloads.setdefault(fixture.content_hash, name)
        problems.extend(
            f"{place}: {name}: {problem}"
            for problem in _own(fixture, taxonomy_of(fixture.input_class), scan)
        )
    return problems


def _own(fixture: Fixture, taxonomy: Taxonomy, scan: PrivateTextScan) -> Iterator[str]:
    if fixture.privacy_class == "private_disallowed":
        yield "privacy_class private_disallowed must not be in a fixture file"
    if fixture.expected is not None and not taxonomy.knows(fixture.expected.label):
        yield f"expected.label must be one of {', '.join(taxonomy.labels)}"
    if fixture.input_class == VOICE:
        try:
            sound_of(fixture.payload)
        except BadInputError as error:
            yield str(error)
    for path, text in _texts(fixture.payload, "$.payload"):
        for kind in scan.kinds(text):
            if kind == "over_long":
                yield f"{path} must have at most {MAX_TEXT_CHARS} characters, got {len(text)}"
            else:
                yield f"{path} looks private: {kind}"


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text with its place; a key is named by its number, for it may be private itself."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for number, (key, inner) in enumerate(value.items()):
            yield f"{path} key {number + 1}", key
            shown = key if key.isidentifier() and len(key) <= 40 else f"[{number + 1}]"
            yield from _texts(inner, f"{path}.{shown}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{path}[{number}]")


def compare_with_manifest(fixtures: Sequence[Fixture], half: HalfManifest, place: str) -> list[str]:
    """Fixtures that are not as pinned, missing, or not pinned at all."""
    found = {fixture.fixture_id: fixture.pin for fixture in fixtures}
    changed = [name for name, pin in found.items() if half.fixtures.get(name, pin) != pin]
    return [
        *(f"{place}: {name} is not the fixture that the manifest pins" for name in changed),
        *(f"{place}: {name} is pinned and missing" for name in half.fixtures if name not in found),
        *(f"{place}: {name} is not pinned" for name in found if name not in half.fixtures),
    ]
