"""Advisory fixtures: synthetic inputs with the decision that people expect, pinned by digest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Annotated, Any, Final

import msgspec

from gatemark.advisory.cases.case import Half
from gatemark.advisory.lanes import CaseKind
from gatemark.core.advisory_record import FallbackKind, PrivacyClass, Severity
from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import BadInputError

FIXTURE_SET: Final = "npu_advisory_eval_v1"
MANIFEST: Final = "manifest.json"
MAX_PAYLOAD_BYTES: Final = 64 * 1024

Code = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The decision that people made about a fixture beforehand."""

    label: Code
    severity: Severity


class Fixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One input. Only ``payload`` ever reaches a service; the rest would tell it the answer.

    ``expected_fallback`` names a fallback that belongs to the case, such as refusing to open a
    private root.
    """

    fixture_id: Code
    input_class: Code
    case: Code
    kind: CaseKind
    privacy_class: PrivacyClass
    payload: Any
    expected: Expected | None = None
    expected_fallback: FallbackKind | None = None

    @property
    def content_hash(self) -> str:
        """What a record cites in place of the payload."""
        return digest({"input_class": self.input_class, "payload": self.payload})

    @property
    def pin(self) -> str:
        """The digest of the whole fixture, expected decision included."""
        return digest(self)


class HalfManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pins of one half: the file's bytes and every fixture in it."""

    file: str
    digest: str
    fixtures: dict[str, str]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The pins of a fixture set. ``training`` is what its reference models may learn from."""

    fixture_set: Code
    evaluation: HalfManifest
    training: HalfManifest | None = None
    seed: int | None = None


class FixtureSet(msgspec.Struct, frozen=True):
    """Fixtures of one half, checked; ``digest`` names them, ``pinned`` says whether a manifest did.

    Other fixtures give another digest, so that runs over different fixtures are not mistaken for
    runs over the same.
    """

    name: str
    digest: str
    pinned: bool
    fixtures: tuple[Fixture, ...]

    @property
    def lanes(self) -> tuple[str, ...]:
        """The input classes that occur, in order of first appearance."""
        return tuple(dict.fromkeys(fixture.input_class for fixture in self.fixtures))


def set_digest(fixtures: Iterable[Fixture]) -> str:
    """One digest for many fixtures, whatever their order."""
    return digest({fixture.fixture_id: fixture.pin for fixture in fixtures})


def encode_fixtures(fixtures: Sequence[Fixture]) -> bytes:
    """The file of a half: one line per fixture."""
    return b"".join(msgspec.json.encode(fixture, order="sorted") + b"\n" for fixture in fixtures)


def pin_half(file: str, fixtures: Sequence[Fixture]) -> HalfManifest:
    """The manifest entry of a half."""
    return HalfManifest(
        file=file,
        digest=digest_bytes(encode_fixtures(fixtures)),
        fixtures={fixture.fixture_id: fixture.pin for fixture in fixtures},
    )


def decode_manifest(data: bytes, place: str) -> Manifest:
    """A manifest from its file."""
    try:
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{place}: not a fixture manifest: {error}") from error


def fixture_of(value: Any) -> Fixture | str:
    """A fixture from plain JSON, or what is wrong with it; the payload is never repeated."""
    if not isinstance(value, dict):
        return value if isinstance(value, str) else "must be an object"
    try:
        fixture = msgspec.convert(value, Fixture)
    except msgspec.ValidationError as error:
        return str(error)
    size = len(msgspec.json.encode(fixture.payload))
    if size > MAX_PAYLOAD_BYTES:
        return f"payload must have at most {MAX_PAYLOAD_BYTES} bytes, got {size}"
    return fixture


def builtin_bytes(name: str) -> bytes:
    """A shipped file of the fixture set."""
    return (files("gatemark.advisory") / FIXTURE_SET / name).read_bytes()


def builtin_fixtures(half: Half = "evaluation") -> FixtureSet:
    """One half of the shipped set, compared with its manifest."""
    manifest = decode_manifest(builtin_bytes(MANIFEST), MANIFEST)
    pins = manifest.training if half == "training" else manifest.evaluation
    if pins is None:
        raise BadInputError(f"{MANIFEST}: has no {half} half")
    data = builtin_bytes(pins.file)
    if digest_bytes(data) != pins.digest:
        raise BadInputError(f"{pins.file}: is not the file that {MANIFEST} pins")
    fixtures = tuple(msgspec.json.decode(line, type=Fixture) for line in data.splitlines())
    return FixtureSet(manifest.fixture_set, set_digest(fixtures), pinned=True, fixtures=fixtures)
