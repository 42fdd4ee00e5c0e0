"""A JSON Schema file that a user brings, in place of a schema's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import jsonschema_rs
import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.record import Problem, RecordSchema
from gatemark.evidence.diagnose import document_problems
from gatemark.evidence.plugins import schemas
from gatemark.evidence.shape import Kinds
from gatemark.evidence.strict_json import parse_strictly

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 128
_ENDS: Final = (".schema.json", ".json")
_OUR_PREFIX: Final = "urn:gatemark:"


class DocumentShape:
    """Every line is a value that a JSON Schema document allows."""

    def __init__(self, validator: Any) -> None:
        self._validator = validator
        self.decoder: msgspec.json.Decoder[Any] | None = None
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode

    def kinds(self, batch: Sequence[Any]) -> Kinds:
        return {object: batch}

    def key_total(self, _kinds: Kinds) -> int | None:
        return None

    def keeps_rules(self, kinds: Kinds) -> bool:
        return all(map(self._validator.is_valid, kinds[object]))

    def problems(self, line: bytes, max_depth: int) -> tuple[Problem, ...]:
        value, problems = parse_strictly(line, max_depth=max_depth)
        if value is None and problems:
            return problems
        return (*problems, *document_problems(self._validator, value))


class SchemaFile(msgspec.Struct, frozen=True):
    """What the file says about lines, and the schema of ours that it is the document of."""

    name: str
    shape: DocumentShape
    known: RecordSchema | None


def is_schema_path(text: str) -> bool:
    """Whether a schema was given as a file and not by its name."""
    return text.endswith(".json") or Path(text).is_file()


def read_schema_file(path: str) -> SchemaFile:
    """The validator of a JSON Schema file; it may refer to nothing outside of itself."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_BYTES} bytes")
    document, problems = parse_strictly(data, max_depth=MAX_DEPTH)
    if problems:
        raise BadInputError(tuple(f"{path}: {problem.message}" for problem in problems))
    try:
        validator = jsonschema_rs.validator_for(document, retriever=_refuse)
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise BadInputError(f"{path}: is no JSON Schema that can be used: {first}") from error
    return SchemaFile(name=path, shape=DocumentShape(validator), known=_known(path, document))


def _refuse(address: str) -> NoReturn:
    raise ValueError(f"{address} lies outside of the file")


def _known(path: str, document: Any) -> RecordSchema | None:
    """Our schema of the same name, told by the document's id or title or by the file's name."""
    told = document if isinstance(document, dict) else {}
    names = [
        str(told.get("$id", "")).removeprefix(_OUR_PREFIX),
        str(told.get("$id", "")).rpartition("/")[2],
        str(told.get("title", "")),
        Path(path).name,
    ]
    for name in names:
        for end in ("", *_ENDS):
            plain = name.removesuffix(end)
            if plain in schemas():
                return schemas().get(plain)
    return None
