"""Reading blocks of lines refuses exactly what the strict path refuses of each line alone."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import msgspec
import pytest

from gatemark.checks.agreement.labels import build_schema
from gatemark.core.record import Form
from gatemark.evidence.blocks import Block
from gatemark.evidence.diagnose import diagnose
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.record_schemas import schemas

TEXTS: Final = (
    *(b"plain", b"Tea at four.", "Größe".encode(), "\u5024".encode(), b"\\u00e9", b"\\u5024 \\n"),
    *(
        b"a: b",
        b"\\u003a",
        b"\\u003A:",
        b"\\u003b",
        b"\\\\u003a",
        b'\\": \\"',
        b"\\u0022",
        b"{[",
        b"",
    ),
    *(
        b"\\ud83d\\ude00",
        b"\\ud83d",
        b"\\ude00",
        b"\\ud800\\u0041",
        b"\\ud800\\ud800",
        b"\\ud83d \\ude00",
    ),
    *(b"\x7f", b"\t", b"\x00", b"\x1f", b"\\u0000", b"\\t", b"\\x", b"\\u12", b"\\u12g4", b"\xff"),
    *(b"\xed\xa0\x80", b"\xc0\xaf", b"x\xef\xbb\xbf", b"\xe2\x80\xa8x"),
)
NUMBERS: Final = (
    *(
        b"0",
        b"-0",
        b"7",
        b"1.5",
        b"1.0",
        b"1e5",
        b"1E400",
        b"-1e999",
        b"1e-999",
        b"01",
        b"1.",
        b".5",
    ),
    *(b"+1", b"--1", b"0x1", b"NaN", b"Infinity", b"-Infinity", b"9" * 30, b"-" + b"9" * 400),
    *(b"9" * 4300, b"9" * 4301, b"0." + b"3" * 400, b"9" * 400 + b".0", b"9223372036854775808"),
)
WORDS: Final = (b"true", b"false", b"null", b"True", b"nul", b"{}", b"[]", b"", b"undefined")
BLANKS: Final = (
    b"",
    b"",
    b"",
    b"",
    b" ",
    b"  ",
    b"\t",
    b"\r",
    b"\x0b",
    b"\xc2\xa0",
    b"\xef\xbb\xbf",
)


class Writer:
    """Writes records with few oddities; the fewer, the more lines are good."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._oddity = draw.choice((0.0, 0.01, 0.05))

    def is_odd(self) -> bool:
        return self._draw.random() < self._oddity

    def write(self, value: Any) -> bytes:
        if self.is_odd():
            return self.write_other()
        if isinstance(value, dict):
            return self.write_object(value)
        if isinstance(value, list):
            return b"[" + self.join([self.write(one) for one in value]) + b"]"
        if isinstance(value, str):
            return self.write_text(value)
        return json.dumps(value).encode()

    def write_object(self, value: dict[str, Any]) -> bytes:
        items = list(value.items())
        if items and self.is_odd():
            items.append(self._draw.choice(items))
        if items and self.is_odd():
            items.pop(self._draw.randrange(len(items)))
        if self.is_odd():
            self._draw.shuffle(items)
        pairs = [
            self.blank() + self.write_text(k) + self.blank() + b":" + self.write(v)
            for k, v in items
        ]
        if self._draw.random() < 2 * self._oddity:
            # Most often nobody may read it, or nobody does.
            key = self._draw.choice((b"x", b"a: b", b"more", b"label", b"id", b"\\u003a"))
            pairs.append(b'"' + key + b'":' + self.write_other())
        return b"{" + self.join(pairs) + b"}"

    def join(self, parts: list[bytes]) -> bytes:
        return (b",," if self.is_odd() else b",").join(parts) + (b"," if self.is_odd() else b"")

    def write_text(self, text: str) -> bytes:
        data = json.dumps(text, ensure_ascii=self._draw.random() < 0.5)[1:-1].encode()
        if data and self.is_odd():
            place = self._draw.randrange(len(text))
            if text[place].isalnum() and text.isalnum():
                escape = rf"\u{ord(text[place]):04x}"
                data = (text[:place] + escape + text[place + 1 :]).encode()
        elif self.is_odd():
            data += self._draw.choice(TEXTS)
        return b'"' + data + b'"'

    def write_other(self) -> bytes:
        draw = self._draw
        match draw.randrange(6):
            case 0:
                return b'"' + b"".join(draw.choices(TEXTS, k=draw.randint(0, 3))) + b'"'
            case 1:
                return draw.choice(NUMBERS)
            case 2:
                return draw.choice(WORDS)
            case 3:
                levels = draw.choice((3, 59, 60, 61, 62, 63, 64, 65, 200, 3000))
                return b"[" * levels + b"]" * levels
            case 4:
                levels = draw.choice((3, 30, 62, 63, 64, 65))
                return b'{"a":' * levels + b"1" + b"}" * levels
            case _:
                return b'{"x": [' + draw.choice(TEXTS) + b'], "x": "' + draw.choice(TEXTS) + b'"}'

    def blank(self) -> bytes:
        return self._draw.choice(BLANKS) if self.is_odd() else b""

    def line(self, value: Any) -> bytes:
        return (self.blank() + self.write(value) + self.blank()).replace(b"\n", b" ")


def list_forms() -> dict[str, Form]:
    """Return every form of lines that stand for themselves, and one with keys of its own."""
    found = {
        f"{schema.name} {form.name}": form
        for schema in schemas()
        if schema.tag is None and schema.head is None
        for form in schema.forms
    }
    own = build_schema(("yes", "no"), ("model: x", "run")).form("judgement")
    good = {"qid": "Q", "label": "yes", "run": {"a": [1]}, "model: x": "y"}
    return found | {"own labels": msgspec.structs.replace(own, good=(good,))}


FORMS: Final = list_forms()


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", FORMS)
def test_blocks_are_refused_line_by_line_as_the_strict_path_does(name: str, seed: int) -> None:
    draw = random.Random(f"{name}{seed}")
    form, limits = FORMS[name], Limits()
    writer = Writer(draw)
    lines = [writer.line(draw.choice(form.good)) for _ in range(60)]
    wanted = {
        number: problems
        for number, line in enumerate(lines, 1)
        if line.strip() and (problems := diagnose(line, form, max_depth=limits.depth))
    }
    reader = RecordReader(form, ReadingChoices(max_errors=1000))
    blocks = []
    while lines:
        size = draw.randint(1, 60)
        blocks.append(Block(b"".join(line + b"\n" for line in lines[:size])))
        lines = lines[size:]
    read = sum(map(len, reader.records(iter(blocks))))
    found = {refusal.line: refusal.problems for refusal in reader.refusals}
    assert found == wanted
    assert read == reader.accepted
