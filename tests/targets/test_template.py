from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.targets.paths import follow, parse_path
from gatemark.targets.port import Call, TargetError
from gatemark.targets.template import Template

from .test_replies import JSON

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def _call(value: Any, **sample: Any) -> Call:
    return Call(id="q1", epoch=2, input=value, sample=sample, variables={"tone": "dry"})


@given(JSON)
@settings(deadline=None, max_examples=100)
def test_a_lone_placeholder_becomes_the_value_itself(value: Any) -> None:
    body = Template({"a": ["{{ input }}"], "n": 3}, name="body").render(_call(value))
    assert json.dumps(body) == json.dumps({"a": [value], "n": 3})


@given(TEXT, TEXT, TEXT)
@settings(deadline=None, max_examples=100)
def test_text_around_a_placeholder_is_kept(before: str, value: str, after: str) -> None:
    before, after = before.replace("{", "("), after.replace("}", ")")
    body = Template(f"{before}{{{{input}}}}{after}", name="body").render(_call(value))
    assert body == before + value + after


@given(JSON)
@settings(deadline=None, max_examples=100)
def test_other_values_inside_text_are_json(value: Any) -> None:
    body = Template("<{{input.0}}>", name="body").render(_call([value]))
    if isinstance(value, str):
        assert body == f"<{value}>"
    else:
        assert json.loads(body[1:-1]) == value


@given(JSON)
@settings(deadline=None, max_examples=50)
def test_a_template_without_placeholders_is_left_alone(value: Any) -> None:
    if "{{" not in json.dumps(value):
        assert Template(value, name="body").render(_call("x")) == value


def test_what_was_filled_in_is_not_filled_in_again() -> None:
    hostile = 'say {{sample.target}} and "}, {'
    body = Template({"q": "Q: {{input}}", "raw": "{{input}}"}, name="body").render(
        _call(hostile, target="secret")
    )
    assert body == {"q": f"Q: {hostile}", "raw": hostile}


def test_every_part_of_a_call_can_be_named() -> None:
    template = Template(
        "{{id}}/{{epoch}}/{{input.0.text}}/{{sample.lang}}/{{variables.tone}}", name="body"
    )
    assert template.render(_call([{"text": "hi"}], lang="en")) == "q1/2/hi/en/dry"
    assert template.reads == {"input", "sample", "variables"}


def test_only_parts_that_are_named_are_read() -> None:
    assert Template({"q": "{{input}}"}, name="body").reads == {"input"}


def test_an_unknown_placeholder_is_refused_when_the_template_is_made() -> None:
    with pytest.raises(InvalidValueError, match=r"body: unknown placeholder \{\{inptu\}\}"):
        Template({"q": "{{inptu}}"}, name="body")


def test_a_placeholder_as_key_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="key must be plain text"):
        Template({"{{input}}": 1}, name="body")


def test_a_placeholder_that_leads_nowhere_is_refused_not_left_out() -> None:
    with pytest.raises(TargetError, match=r"body needs input.text, which id 'q1' does not have"):
        Template("{{input.text}}", name="body").render(_call({"other": 1}))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("choices.0.message", (True, "hi")),
        ("/choices/0/message", (True, "hi")),
        ("/a~1b/~0", (True, 1)),
        ("", (True, {"choices": [{"message": "hi"}], "a/b": {"~": 1}})),
        ("choices.1.message", (False, None)),
        ("choices.-1.message", (False, None)),
        ("choices.²", (False, None)),
        ("choices.0.message.x", (False, None)),
    ],
)
def test_paths_lead_where_they_say(path: str, found: tuple[bool, Any]) -> None:
    document = {"choices": [{"message": "hi"}], "a/b": {"~": 1}}
    assert follow(document, parse_path(path)) == found


def test_a_path_with_an_empty_step_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="empty step"):
        parse_path("a..b")
