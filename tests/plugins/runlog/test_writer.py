from __future__ import annotations

import gzip
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.plugins.runlog.records.trace import StreamDelta
from gatemark.plugins.runlog.traces.files import pack_gzip, render_json_lines, render_plain_json

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)


@given(text=TEXTS)
@settings(deadline=None, max_examples=200)
def test_lines_are_what_sorted_compact_json_is(text: str) -> None:
    delta = StreamDelta("case-1", 1, 1, "a", text, 5, 0)
    plain = {
        "agent_id": "a",
        "case_id": "case-1",
        "delta_text": text,
        "record_type": "stream_delta",
        "seq": 1,
        "t_emitted_ms": 5,
        "t_rel_ms": 0,
        "turn_id": 1,
    }
    for ascii_only in (False, True):
        line = render_json_lines([delta], ascii_only=ascii_only)
        expected = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only)
        assert line == expected.encode() + b"\n"


def test_gzip_has_no_time_and_no_name() -> None:
    data = pack_gzip(b"x" * 1000)
    assert data[:10].hex() == "1f8b08000000000002ff"
    assert gzip.decompress(data) == b"x" * 1000
    assert pack_gzip(b"x" * 1000) == data


def test_documents_for_people_are_sorted_and_end_with_a_newline() -> None:
    data = render_plain_json({"b": [1], "a": "é"})
    assert json.loads(data) == {"a": "é", "b": [1]}
    assert data.startswith('{\n  "a": "é",\n  "b": ['.encode())
    assert data.endswith(b"}\n")
