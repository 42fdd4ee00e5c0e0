"""Opening fixtures and labels: read strictly, looked over, pinned where there is a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gatemark.advisory.fixtures import (
    MANIFEST,
    Fixture,
    FixtureSet,
    HalfManifest,
    builtin_fixtures,
    decode_manifest,
    fixture_of,
    set_digest,
)
from gatemark.advisory.lint import Placed, compare_with_manifest, lint_fixtures
from gatemark.advisory.references import LabelLine, Labels, LabelSource, TaxonomyOf, label_line_of
from gatemark.core.advisory import DEFAULT_TAXONOMY, Taxonomy
from gatemark.core.errors import BadInputError
from gatemark.intake.dataset import json_rows
from gatemark.intake.limits import Limits
from gatemark.intake.source import inspect_source

BUILTIN: Final = "builtin"
MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
MAX_PROBLEMS: Final = 20


def default_taxonomy(_input_class: str) -> Taxonomy:
    """What labels mean where no policy says otherwise."""
    return DEFAULT_TAXONOMY


def open_fixtures(path: str, taxonomy_of: TaxonomyOf = default_taxonomy) -> FixtureSet:
    """The fixtures of a name, a file or a folder with a manifest; refuses all when one is bad."""
    if path == BUILTIN:
        opened = builtin_fixtures()
        rows = [(f"{BUILTIN}:{n}", fixture) for n, fixture in enumerate(opened.fixtures, start=1)]
        _refuse(lint_fixtures(rows, taxonomy_of))
        return opened
    name, file, half = _pinned_file(Path(path))
    rows = _read(str(file))
    problems = lint_fixtures(rows, taxonomy_of)
    fixtures = tuple(fixture for _, fixture in rows)
    if half is not None:
        problems.extend(compare_with_manifest(fixtures, half, str(file)))
    _refuse(problems)
    return FixtureSet(name, set_digest(fixtures), pinned=half is not None, fixtures=fixtures)


def _pinned_file(path: Path) -> tuple[str, Path, HalfManifest | None]:
    """Set name, file and pins; a lone file has no pins."""
    if not path.is_dir():
        return path.name.split(".")[0] or "fixtures", path, None
    place = path / MANIFEST
    source = inspect_source(str(place))
    if source.byte_count > MAX_MANIFEST_BYTES:
        raise BadInputError(f"{place}: must have at most {MAX_MANIFEST_BYTES} bytes")
    manifest = decode_manifest(place.read_bytes(), str(place))
    name = manifest.evaluation.file
    if Path(name).name != name:
        raise BadInputError(f"{place}: evaluation.file must be a file beside the manifest")
    return manifest.fixture_set, path / name, manifest.evaluation


def _read(path: str) -> list[Placed]:
    rows: list[Placed] = []
    problems: list[str] = []
    for place, value in json_rows(inspect_source(path), Limits()):
        fixture = fixture_of(value)
        if isinstance(fixture, Fixture):
            rows.append((place, fixture))
        else:
            problems.append(f"{place}: {fixture}")
    _refuse(problems)
    if not rows:
        raise BadInputError(f"{path}: holds no fixtures")
    return rows


def read_labels(
    path: str, fixtures: Sequence[Fixture], taxonomy_of: TaxonomyOf = default_taxonomy
) -> Labels:
    """The labels of a file, by fixture and source; each fixture at most once per source."""
    lanes = {fixture.fixture_id: fixture.input_class for fixture in fixtures}
    labels: dict[tuple[str, LabelSource], LabelLine] = {}
    problems: list[str] = []
    for place, value in json_rows(inspect_source(path), Limits()):
        line = label_line_of(value)
        if isinstance(line, str):
            problems.append(f"{place}: {line}")
        elif line.fixture_id not in lanes:
            problems.append(f"{place}: no fixture is called {line.fixture_id!r}")
        elif not (known := taxonomy_of(lanes[line.fixture_id])).knows(line.label):
            allowed = ", ".join((*known.labels, *known.aliases))
            problems.append(f"{place}: label {line.label!r} must be one of {allowed}")
        elif (line.fixture_id, line.source) in labels:
            problems.append(f"{place}: {line.fixture_id} has a {line.source} already")
        else:
            labels[line.fixture_id, line.source] = line
    _refuse(problems)
    return labels


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise BadInputError(
            tuple(problems[:MAX_PROBLEMS]), unlisted_count=max(0, len(problems) - MAX_PROBLEMS)
        )
