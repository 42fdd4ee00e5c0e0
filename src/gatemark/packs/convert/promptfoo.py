"""Convert a promptfoo config to a pack: prompts, providers, tests and supported assertions.

(1) Prompts and providers make columns, as in promptfoo. The first column is the baseline, the
second the candidate. (2) Tests become items whose input is the mapping of their variables, each
with its assertions. (3) A test without an assertion that a scorer can check is left out; one that
keeps only some of its assertions has the tag ``unconverted``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.packs.convert.assertions import count_kinds, make_parts, parse_assertion_text
from gatemark.packs.convert.conversion import (
    Conversion,
    build_pack,
    make_pack_name,
    write_json_lines,
)
from gatemark.packs.convert.foreign_files import SCHEME, ForeignFolder, Unconvertible
from gatemark.packs.convert.providers import convert_provider, list_unread_settings
from gatemark.packs.convert.templates import find_placeholders, prefix_placeholders

DATA: Final = "data/tests.jsonl"
MAX_TESTS: Final = 100_000
_PROMPT_FILES: Final = (".txt", ".md", ".json", ".yaml", ".yml", ".j2", ".jinja", ".jinja2")
_SPECIAL: Final = ("__prefix", "__suffix", "__providerOutput", "__threshold")


class _Prompt(NamedTuple):
    label: str
    content: Any


class _Provider(NamedTuple):
    label: str
    name: str
    config: Mapping[str, Any]


class _Test(NamedTuple):
    variables: dict[str, Any]
    asserted: list[Any]
    description: str | None
    metadata: Mapping[str, Any]


class _Reading:
    """A config that is being converted, and notes on what was left out."""

    def __init__(self, path: str) -> None:
        config = read_settings(path)
        if not isinstance(config, Mapping) or not {"prompts", "tests"} & set(config):
            raise BadInputError(
                f"{path}: expected a promptfoo config with prompts, providers and tests; for the "
                "output of 'promptfoo eval', use gatemark compare"
            )
        self.path = path
        self.config = config
        self.folder = ForeignFolder(Path(path))
        self.left_out: list[str] = []

    def prompts(self) -> Iterator[_Prompt]:
        given = self.config.get("prompts", [])
        for number, one in enumerate(given if isinstance(given, list) else [given], start=1):
            raw = one.get("raw", one.get("id", "")) if isinstance(one, Mapping) else one
            label = one.get("label") if isinstance(one, Mapping) else None
            try:
                yield from self._read_prompt(str(raw), str(label or f"prompt-{number}"))
            except Unconvertible as error:
                self.left_out.append(f"prompt {number}: {error}")

    def _read_prompt(self, raw: str, label: str) -> Iterator[_Prompt]:
        one_line = "\n" not in raw.strip() and "{{" not in raw
        is_file = raw.startswith(SCHEME) or (one_line and raw.strip().endswith(_PROMPT_FILES))
        if not is_file:
            yield _Prompt(label, _parse_chat(raw))
            return
        for path in self.folder.paths(raw.strip()):
            text = self.folder.text(path)
            if path.suffix in (".json", ".yaml", ".yml"):
                yield _Prompt(path.stem, self.folder.value(path))
                continue
            pieces = [piece.strip() for piece in text.split("\n---\n")]
            for number, piece in enumerate(pieces, start=1):
                name = path.stem if len(pieces) == 1 else f"{path.stem}-{number}"
                yield _Prompt(name, _parse_chat(piece))

    def providers(self) -> Iterator[_Provider]:
        given = self.config.get("providers", self.config.get("targets", []))
        for one in given if isinstance(given, list) else [given]:
            try:
                found = self.folder.resolved(one)
            except Unconvertible as error:
                self.left_out.append(f"provider {one}: {error}")
                continue
            for entry in found if isinstance(found, list) else [found]:
                yield _parse_provider(entry)

    def tests(self) -> Iterator[_Test]:
        """Yield every test with its defaults, once per combination of its lists."""
        default = self.folder.resolved(self.config.get("defaultTest")) or {}
        default = default if isinstance(default, Mapping) else {}
        if self.config.get("scenarios"):
            self.left_out.append("scenarios: write their tests out")
        for test in self._read_tests():
            if isinstance(test.get("options"), Mapping) and test["options"]:
                named = ", ".join(sorted(map(str, test["options"])))
                self.left_out.append(f"options of a test: {named}")
            given = {**self._read_variables(default), **self._read_variables(test)}
            asserted = [*(default.get("assert") or []), *(test.get("assert") or [])]
            metadata = {**(default.get("metadata") or {}), **(test.get("metadata") or {})}
            if test.get("threshold", default.get("threshold")) is not None:
                self.left_out.append("threshold of a test: here all of its assertions must hold")
            for variables in _list_combinations(given):
                yield _Test(variables, asserted, test.get("description"), metadata)

    def _read_tests(self) -> Iterator[Mapping[str, Any]]:
        given = self.config.get("tests", [])
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, str):
                name = one if one.startswith(SCHEME) else SCHEME + one
                try:
                    for path in self.folder.paths(name):
                        yield from self._read_file(path)
                except Unconvertible as error:
                    self.left_out.append(f"tests {one}: {error}")
            elif isinstance(one, Mapping):
                yield one
            else:
                raise BadInputError(f"{self.path}: a test must be a mapping, got {one!r}")

    def _read_file(self, path: Path) -> Iterator[Mapping[str, Any]]:
        value = self.folder.value(path)
        if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
            raise BadInputError(f"{path}: expected a list of tests")
        for row in value:
            yield self._read_row(row) if path.suffix == ".csv" else row

    def _read_row(self, row: Mapping[str, str]) -> dict[str, Any]:
        """Return a test from a table row: columns are variables, ``__`` columns the other keys."""
        unread = [name for name in _SPECIAL if row.get(name)]
        if unread:
            self.left_out.append(f"columns {', '.join(unread)}")
        expected = [text for name, text in row.items() if name.startswith("__expected") and text]
        return {
            "vars": {name: text for name, text in row.items() if not name.startswith("__")},
            "assert": [parse_assertion_text(text) for text in expected],
            "description": row.get("__description") or None,
            "metadata": {
                name.partition(":")[2]: text
                for name, text in row.items()
                if name.startswith("__metadata:") and text
            },
        }

    def _read_variables(self, test: Mapping[str, Any]) -> dict[str, Any]:
        given = self.folder.resolved(test.get("vars")) or {}
        if not isinstance(given, Mapping):
            raise BadInputError(f"{self.path}: vars must be a mapping, got {given!r}")
        return {str(name): self.folder.resolved(value) for name, value in given.items()}


def convert_config(path: str) -> Conversion:
    """Convert a promptfoo config to a pack."""
    reading = _Reading(path)
    prompts, providers = list(reading.prompts()), list(reading.providers())
    files: dict[str, bytes] = {}
    columns = [
        (f"{provider.label} / {prompt.label}", target)
        for provider, prompt in itertools.product(providers, prompts)
        if (target := _make_target(reading, provider, prompt, files)) is not None
    ]
    if not columns:
        raise BadInputError((f"{path}: no prompt and provider can be converted", *reading.left_out))
    used = {name for prompt in prompts for name in _find_used(prompt)}
    rows = list(_make_rows(reading, used))
    if not rows:
        raise BadInputError((f"{path}: no test can be converted", *reading.left_out))
    (first, baseline), (second, candidate) = columns[0], columns[min(1, len(columns) - 1)]
    has_baseline = len(columns) > 1
    if columns[2:]:
        named = ", ".join(name for name, _ in columns[2:])
        reading.left_out.append(f"further columns, since a pack compares two: {named}")
    suite: dict[str, Any] = {
        "dataset": DATA,
        "scorer": {"name": "assertions", "options": {"combine": "all"}},
    }
    repeat = (reading.config.get("evaluateOptions") or {}).get("repeat")
    if isinstance(repeat, int) and repeat > 1:
        suite["epochs"] = repeat
    name = make_pack_name(
        str(reading.config.get("description") or Path(path).resolve().parent.name)
    )
    story = [f"Made from {Path(path).name} of promptfoo: {len(rows)} tests."]
    if has_baseline:
        story.append(f"Baseline: {first}. Candidate: {second}. No larger drop than regression_max.")
    else:
        story.append(f"Candidate: {second}. Nothing to compare with, so every test must pass.")
    kept = {place for place in files if place in json.dumps([baseline, candidate])}
    return Conversion(
        pack=build_pack(name, "prompt", suite, candidate, baseline if has_baseline else "none"),
        files={DATA: write_json_lines(rows), **{place: files[place] for place in sorted(kept)}},
        converted=tuple(story),
        left_out=tuple(dict.fromkeys(reading.left_out)),
    )


def _make_target(
    reading: _Reading, provider: _Provider, prompt: _Prompt, files: dict[str, bytes]
) -> dict[str, Any] | None:
    """Return the target of one column, or None with a note."""
    place = f"prompts/{make_pack_name(prompt.label)}"
    try:
        content = prefix_placeholders(prompt.content)
    except Unconvertible as error:
        reading.left_out.append(f"prompt {prompt.label}: {error}")
        return None
    try:
        key = "prompt_file" if isinstance(content, str) else "messages_file"
        place += ".txt" if isinstance(content, str) else ".json"
        target = convert_provider(provider.name, provider.config, {key: place})
    except Unconvertible as error:
        reading.left_out.append(str(error))
        return None
    text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
    files[place] = text.encode()
    unread = list_unread_settings(provider.config)
    if unread:
        reading.left_out.append(f"settings of {provider.label}: {', '.join(unread)}")
    if "apiKey" in unread:
        reading.left_out.append(
            "a key in the config; put it into the variable that api_key_env names"
        )
    return target


def _find_used(prompt: _Prompt) -> set[str]:
    try:
        return find_placeholders(prompt.content)
    except Unconvertible:
        return set()


def _make_rows(reading: _Reading, used: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the items of the data set; as in promptfoo, a missing variable is empty."""
    tests = list(itertools.islice(reading.tests(), MAX_TESTS + 1))
    if len(tests) > MAX_TESTS:
        raise BadInputError(f"{reading.path}: more than {MAX_TESTS:,} tests")
    ids = _make_ids(tests)
    lost: list[str] = []
    weakened, empty = 0, 0
    for name, test in zip(ids, tests, strict=True):
        parts: list[dict[str, Any]] = []
        missing: list[str] = []
        for asserted in test.asserted:
            try:
                one = (
                    asserted
                    if isinstance(asserted, Mapping)
                    else parse_assertion_text(str(asserted))
                )
                parts += make_parts(one, test.variables, reading.folder)
            except Unconvertible as error:
                missing.append(str(error))
        lost += missing
        if not parts:
            empty += 1
            continue
        weakened += bool(missing)
        tags = {key: str(text) for key, text in test.metadata.items() if key != "id"}
        if missing:
            tags["unconverted"] = "yes"
        item = {"id": name, "input": {**dict.fromkeys(sorted(used), ""), **test.variables}}
        yield item | ({"tags": tags} if tags else {}) | {"assert": parts}
    if lost:
        reading.left_out.append(f"assertions: {count_kinds(lost)}")
    if weakened:
        reading.left_out.append(
            f"{weakened} tests keep only a part of their assertions; they have the tag unconverted"
        )
    if empty:
        reading.left_out.append(f"{empty} tests are left out: nothing of theirs can be checked")


def _make_ids(tests: list[_Test]) -> list[str]:
    """Return an id per test: its own, its description if unique, or its number."""
    own = [str(test.metadata.get("id") or test.description or "").strip() for test in tests]
    return [
        name if name and len(name) <= 200 and own.count(name) == 1 else f"test-{number:04}"
        for number, name in enumerate(own, start=1)
    ]


def _list_combinations(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    names = [name for name, value in given.items() if isinstance(value, list)]
    for values in itertools.product(*(given[name] for name in names)):
        yield {**given, **dict(zip(names, values, strict=True))}


def _parse_provider(entry: Any) -> _Provider:
    if isinstance(entry, str):
        return _Provider(entry, entry, {})
    if isinstance(entry, Mapping) and isinstance(entry.get("id"), str):
        config = entry.get("config")
        label = str(entry.get("label") or entry["id"])
        return _Provider(label, entry["id"], config if isinstance(config, Mapping) else {})
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((name, options),) = entry.items()
        options = options if isinstance(options, Mapping) else {}
        config = options.get("config", {})
        label = str(options.get("label") or name)
        return _Provider(label, str(options.get("id") or name), config)
    raise BadInputError(f"a provider must be a text or a mapping with an id, got {entry!r}")


def _parse_chat(text: str) -> Any:
    """Return a prompt as a conversation if it is one in JSON, else as text."""
    if not text.lstrip().startswith("["):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return text
    is_chat = isinstance(found, list) and all(
        isinstance(one, dict) and {"role", "content"} <= set(one) for one in found
    )
    return found if is_chat else text
