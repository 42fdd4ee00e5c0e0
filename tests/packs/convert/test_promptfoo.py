"""``gatemark init --from promptfoo``: several configs, each linted, one of them run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran
from tests.targets.rigs import Answer, Request, serving

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.packs.convert.assertions import make_parts, parse_assertion_text
from gatemark.packs.convert.foreign_files import ForeignFolder, Unconvertible
from gatemark.packs.convert.promptfoo import convert_config

SMALL = """\
prompts: ["Answer: {{question}}"]
providers: [openai:gpt-4o-mini]
tests: [{vars: {question: "1+1?"}, assert: [{type: equals, value: 2}]}]
"""
FERRY = """\
description: Ferry desk!
prompts:
  - file://prompts/*.txt
  - >-
    [{"role": "system", "content": "You are {{persona}}"},
    {"role": "user", "content": "{{question}}"}]
  - file://logic.j2
providers:
  - id: openai:chat:small
    label: small
    config: {temperature: 0, max_tokens: 9, apiKey: sk-a, apiBaseUrl: "http://URL/v1", top_p: 1}
  - exec:./run.sh
defaultTest:
  vars: {persona: a clerk}
  assert: [{type: not-contains, value: "as an AI (really)"}]
tests:
  - file://more/table.csv
  - file://more/list.yaml
  - description: times
    vars: {question: ["When?", "At what time?"]}
    assert: [{type: icontains, value: "{{persona}}"}, {type: llm-rubric, value: polite}]
  - vars: {question: file://more/question.txt}
    metadata: {id: q-1, topic: times}
    assert: [{type: regex, value: '\\d+(?=x)'}, {type: not-is-refusal}]
    threshold: 0.5
scenarios: [{config: []}]
"""


def written(folder: Path, config: str, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "promptfooconfig.yaml").write_text(config)
    return str(folder / "promptfooconfig.yaml")


def rows_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


@pytest.fixture
def ferry(tmp_path: Path) -> str:
    return written(
        tmp_path,
        FERRY,
        prompts__a_dot_txt="Answer: {{question}}",
        prompts__b_dot_txt="Be short. {{ question }}\n---\nBe long. {{question}}",
        logic_dot_j2="{% if question %}{{question}}{% endif %}",
        more__table_dot_csv=(
            "question,persona,__expected,__expected2,__description,__metadata:topic\n"
            'How much?,x,"contains-all: 3, euro",not-regex:\\bfree\\b,price,prices\n'
            "Who?,y,Ann,,,\n"
        ),
        more__list_dot_yaml=(
            "- {vars: {question: Why}, assert: [{type: javascript, value: 'true'}]}\n"
            "- {vars: {question: Hm}, assert: [{type: starts-with, value: '(a'}]}\n"
        ),
        more__question_dot_txt="From a file?",
    )


def test_prompts_providers_tests_and_assertions_are_converted(ferry: str) -> None:
    made = convert_config(ferry)
    assert made.pack["name"] == "ferry-desk"
    base, cand = (made.pack["targets"][arm]["openai"] for arm in ("baseline", "candidate"))
    assert base == {
        "base_url": "http://URL/v1",
        "model": "small",
        "api_key_env": "OPENAI_API_KEY",
        "prompt_file": "prompts/a.txt",
        "temperature": 0,
        "max_tokens": 9,
    }
    assert cand == base | {"prompt_file": "prompts/b-1.txt"}
    assert made.files["prompts/b-1.txt"] == b"Be short. {{input.question}}"
    rows = {row["id"]: row for row in rows_of(made.files["data/tests.jsonl"])}
    assert [row["input"]["question"] for row in rows.values()] == [
        *("How much?", "Who?", "Why", "Hm", "When?", "At what time?", "From a file?")
    ]
    assert rows["price"]["tags"] == {"topic": "prices"}
    assert rows["q-1"]["tags"] == {"topic": "times", "unconverted": "yes"}
    assert rows["test-0003"]["tags"] == {"unconverted": "yes"}
    assert rows["test-0005"]["assert"][1]["options"]["phrases"] == ["a clerk"]
    assert rows["test-0002"]["assert"][1] == {
        "scorer": "exact",
        "options": {"strip": False},
        "target": "Ann",
    }
    assert "sk-a" not in json.dumps(made.pack) + repr(made.files)


def test_what_is_left_out_is_told_in_the_pack_and_on_the_screen(
    ferry: str, tmp_path: Path, gatemark: Callable[..., Ran]
) -> None:
    ran = gatemark("init", tmp_path / "evals", "--from", "promptfoo", ferry)
    assert ran.code == 0
    pack = (tmp_path / "evals" / "pack.yaml").read_text()
    for line in (
        "settings of small: apiKey, top_p",
        "prompt logic: uses template logic ({% … %})",
        "provider exec:./run.sh: there is no target for it",
        "scenarios: write their tests out",
        "threshold of a test: here all of its assertions must hold",
        "assertions: llm-rubric (2), javascript (1), regex (pattern",
        "4 tests keep only a part of their assertions; they have the tag unconverted",
        "further columns, since a pack compares two: small / b-2, small / prompt-2",
    ):
        assert f"not converted: {line}" in ran.err
        assert f"# NOT CONVERTED: {line}" in pack
    again = gatemark("init", tmp_path / "evals", "--from", "promptfoo", ferry)
    assert (again.code, "pack.yaml is already there" in again.err) == (1, True)


def test_the_pack_lints_and_runs(
    ferry: str, tmp_path: Path, gatemark: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Request) -> Answer:
        (message,) = request.body["messages"]
        text = "3 euro for a clerk, Ann" if "How much" in message["content"] else "(a clerk says 7"
        return Answer(
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
        )

    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    with serving(answer) as server:
        config = Path(ferry).read_text().replace("http://URL", server.url)
        Path(ferry).write_text(config)
        folder = tmp_path / "evals"
        assert gatemark("init", folder, "--from", "promptfoo", ferry).code == 0
        assert "no errors" in gatemark("lint", folder / "pack.yaml").out
        store = ("--store", tmp_path / "store")
        ran = gatemark("run", folder / "pack.yaml", *store, "--json")
    assert ran.code == 3, ran.err
    assert {request.headers["Authorization"] for request in server.requests} == {
        "Bearer sk-of-a-test"
    }
    asked = {request.body["messages"][0]["content"] for request in server.requests}
    assert {"Answer: When?", "Be short. When?"} <= asked
    scores = {
        one["scope"]: one["value"] for one in ran.json["measurements"] if one["name"] == "score"
    }
    # Who? must equal Ann; every other answer passes.
    assert scores["tests"] == pytest.approx(6 / 7)


def test_one_column_has_no_baseline_so_every_test_must_pass(
    tmp_path: Path, gatemark: Callable[..., Ran]
) -> None:
    made = convert_config(written(tmp_path, SMALL))
    assert made.pack["targets"]["baseline"] == "none"
    assert (made.pack["score_min"], made.pack["suites"][0]["min"]) == (1.0, 1.0)
    assert made.left_out == ()
    assert "every test must pass" in made.converted[1]


def test_chats_services_repeats_and_variables_from_files(tmp_path: Path) -> None:
    config = """\
prompts: [file://chat.json]
providers:
  - anthropic:messages:claude-x: {label: big}
  - id: https://desk.example/answer
    config: {body: {text: "{{prompt}}"}, transformResponse: "json.choices[0].text"}
  - ollama:chat:llama3:8b
  - google:gemini-x
evaluateOptions: {repeat: 3}
tests:
  - vars: file://vars.yaml
    assert: [{type: is-json, value: {type: object}}, {type: equals, value: {ok: true}}]
"""
    chat = '[{"role": "user", "content": "{{user.name}} asks {{missing}}"}]'
    path = written(tmp_path, config, chat_dot_json=chat, vars_dot_yaml="user: {name: Ann}")
    made = convert_config(path)
    targets = made.pack["targets"]
    assert targets["baseline"]["http"] == {
        "url": "https://api.anthropic.com",
        "preset": "anthropic",
        "model": "claude-x",
        "api_key_env": "ANTHROPIC_API_KEY",
        "messages_file": "prompts/chat.json",
        "max_tokens": 1024,
    }
    assert targets["candidate"]["http"] == {
        "url": "https://desk.example/answer",
        "body": {"text": "{{prompt}}"},
        "response": "choices.0.text",
        "messages_file": "prompts/chat.json",
    }
    assert made.pack["suites"][0]["epochs"] == 3
    (row,) = rows_of(made.files["data/tests.jsonl"])
    assert row["input"] == {"missing": "", "user": {"name": "Ann"}}
    assert json.loads(made.files["prompts/chat.json"])[0]["content"] == (
        "{{input.user.name}} asks {{input.missing}}"
    )


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("results: []", "expected a promptfoo config"),
        ("prompts: [a]\nproviders: [echo]\ntests: []", "no prompt and provider can be converted"),
        ("prompts: [a]\nproviders: [openai:x]\ntests: []", "no test can be converted"),
        ("prompts: [a]\nproviders: [openai:x]\ntests: [5]", "a test must be a mapping, got 5"),
        ("prompts: [file://none.txt]\nproviders: [openai:x]\ntests: []", "No such file"),
        ("prompts: [a]\nproviders: [3]\ntests: []", "a provider must be a text or a mapping"),
        (SMALL.replace("equals", "llm-rubric"), "1 tests are left out"),
    ],
)
def test_what_cannot_become_a_pack_is_refused(config: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as refused:
        convert_config(written(tmp_path, config))
    assert told in "\n".join(refused.value.lines())


def test_files_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("a secret")
    inner = tmp_path / "inner"
    inner.mkdir()
    config = SMALL.replace('"Answer: {{question}}"', f"a, file://{outside}, file://../secret.txt")
    made = convert_config(written(inner, config))
    assert "a secret" not in repr(made)
    assert len([line for line in made.left_out if "outside the folder of the config" in line]) == 2


@pytest.mark.parametrize(
    ("asserted", "passes", "fails"),
    [
        ({"type": "equals", "value": "Ann"}, "Ann", "ann"),
        ({"type": "equals", "value": 2}, "2", "2.0"),
        ({"type": "equals", "value": {"a": [1]}}, '{"a": [1]}', '{"a": [2]}'),
        ({"type": "contains", "value": "Ann"}, "I am Ann.", "I am ann."),
        ({"type": "icontains", "value": "Ann"}, "I am ann.", "I am Bob."),
        ({"type": "contains-any", "value": ["a", "b"]}, "b", "c"),
        ({"type": "contains-all", "value": ["a", "b"]}, "ab", "b"),
        ({"type": "icontains-all", "value": ["a", "b"]}, "AB", "B"),
        ({"type": "not-contains", "value": "A.n"}, "Ann", "A.n"),
        ({"type": "not-icontains", "value": "ann"}, "Bob", "ANN"),
        ({"type": "regex", "value": "^a+$"}, "aa", "ab"),
        ({"type": "not-regex", "value": "^a+$"}, "ab", "aa"),
        ({"type": "starts-with", "value": "[a]*"}, "[a]* b", "a [a]*"),
        ({"type": "is-json"}, "[1]", "no"),
        ({"type": "is-json", "value": '{"type": "array"}'}, "[1]", "{}"),
        ({"type": "is-refusal"}, "I cannot do that.", "Yes."),
        ({"type": "not-is-refusal"}, "Yes.", "I cannot do that."),
        (parse_assertion_text("contains-any: a, b"), "b", "c"),
        (parse_assertion_text("Paris: a city"), "Paris: a city", "Paris"),
    ],
    ids=str,
)
def test_an_assertion_means_the_same(
    asserted: dict[str, Any], passes: str, fails: str, tmp_path: Path
) -> None:
    from gatemark.scorers.combined import ScorerPart, prepare_part, score_parts
    from gatemark.scorers.scorer import Scorable

    (part,) = make_parts(asserted, {}, ForeignFolder(tmp_path / "config.yaml"))
    ready = [prepare_part(ScorerPart(**part))]
    for output, expected in ((passes, 1.0), (fails, 0.0)):
        item = Scorable(id="q", input="", output=output, target=None)
        assert score_parts(ready, item, "all").value == expected, output


@pytest.mark.parametrize(
    "asserted",
    [
        {"type": "llm-rubric", "value": "polite"},
        {"type": "similar", "value": "x", "threshold": 0.8},
        {"type": "not-equals", "value": "x"},
        {"type": "contains", "value": "x", "transform": "output.trim()"},
        {"type": "contains", "value": "{{ x | upper }}"},
        {"type": "contains", "value": "x", "weight": 0},
        {"type": "assert-set", "threshold": 0.5, "assert": []},
        {"type": "equals", "value": None},
        {"type": "contains", "value": "file://check.py"},
        parse_assertion_text("python: output == 1"),
        parse_assertion_text("similar(0.9): x"),
        parse_assertion_text("grade: polite"),
    ],
    ids=str,
)
def test_an_assertion_without_a_counterpart_is_not_guessed(
    asserted: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "check.py").write_text("")
    with pytest.raises(Unconvertible):
        make_parts(asserted, {}, ForeignFolder(tmp_path / "config.yaml"))


def test_the_written_pack_is_plain_yaml(tmp_path: Path, gatemark: Callable[..., Ran]) -> None:
    path = written(tmp_path, SMALL)
    assert gatemark("init", tmp_path / "evals", "--from", "promptfoo", path).code == 0
    assert read_settings(str(tmp_path / "evals" / "pack.yaml")) == convert_config(path).pack
