from __future__ import annotations

import json

from gatemark.core.canonical import json_file, json_text


def test_people_read_one_value_per_line() -> None:
    value = {"name": "ä", "list": [1, 2.5], "none": None}
    assert json_text(value).splitlines()[1] == '  "name": "ä",'
    assert json_file(value) == json_text(value).encode() + b"\n"
    assert json.loads(json_file(value)) == value
