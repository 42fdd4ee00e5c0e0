"""Answers that were kept: nobody in a run may change what another one said, or is heard to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.targets.rigs import Answer, Request, serving

Run = Callable[..., Any]
ITEMS = 60

PACK = """
gatemark: 1
name: shouting
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.0
regression_max: 0.1
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 1.0, dataset: golden.jsonl}
targets:
  candidate: {python: "app:answer", version: "1"}
  baseline: {python: "old:answer", version: "1"}
"""
JUDGED = """
gatemark: 1
name: judged
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.9
regression_max: 0.02
suites:
  - id: golden
    kind: golden
    weight: 1
    dataset: golden.jsonl
    scorer: {name: judge, judge: grader}
judges:
  grader: {target: {python: "judging:judge", version: "1"}, labels: labels.jsonl}
targets:
  candidate: {python: "app:answer", version: "1"}
  baseline: none
"""
JUDGE = """
import re
def judge(prompt):
    nonce = re.search(r"<<<answer ([0-9a-f]+)>>>", prompt).group(1)
    said = re.search(rf"<<<answer {nonce}>>>\\n(.*?)\\n<<<end", prompt, re.S).group(1)
    return {"output": f"GRADE {nonce}: {'CORRECT' if said.isupper() else 'INCORRECT'}"}
"""
RIGHT = "def answer(text):\n    return text.upper()\n"
POISON = """
import hashlib, json, pathlib
HERE = pathlib.Path(__file__).parent
done = []
def poison(glob, old, new):
    for path in () if done else (HERE / "store").glob(glob):
        done.append(path)
        lines = []
        for line in path.read_bytes().splitlines():
            body = line[:line.rindex(b',"check":')] + b"}"
            body = body.replace(old, new)
            check = hashlib.blake2b(body, digest_size=8).hexdigest().encode()
            lines.append(body[:-1] + b',"check":"' + check + b'"}')
        path.write_bytes(b"".join(line + b"\\n" for line in lines))
"""
"""Rewrites what somebody said in journals, with checks that are right."""


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n:03d}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(ITEMS)]
    (tmp_path / "golden.jsonl").write_text(lines(rows))
    labelled = [
        {
            "id": f"l{n}",
            "input": f"say {n}",
            "output": f"SAY {n}" if n % 2 else f"say {n}",
            "label": "CORRECT" if n % 2 else "INCORRECT",
        }
        for n in range(60)
    ]
    (tmp_path / "labels.jsonl").write_text(lines(labelled))
    (tmp_path / "judging.py").write_text(JUDGE)
    (tmp_path / "old.py").write_text(RIGHT)
    return tmp_path


def run(gatemark: Run, folder: Path, *more: object) -> Any:
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *more)


def caveats(ran: Any) -> str:
    return "\n".join(ran.json["caveats"])


@pytest.mark.parametrize("when", ["import", "call"])
def test_a_candidate_cannot_change_what_the_cache_says_of_the_baseline(
    gatemark: Run, folder: Path, when: str
) -> None:
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(RIGHT)
    assert run(gatemark, folder, "--cache").code == 0
    spoil = "poison('**/baseline-*.journal', b'SAY', b'say')"
    at_import, in_call = (spoil, "pass") if when == "import" else ("", spoil)
    (folder / "app.py").write_text(
        f"{POISON}\n{at_import}\ndef answer(text):\n    {in_call}\n    return 'wrong'\n"
    )
    ran = run(gatemark, folder, "--cache")
    assert ran.code == 4, ran.out + ran.err
    assert "changed since this run began" in ran.err


def test_a_candidate_cannot_change_what_the_cache_says_of_its_judge(
    gatemark: Run, folder: Path
) -> None:
    (folder / "pack.yaml").write_text(JUDGED)
    (folder / "app.py").write_text("def answer(text):\n    return text\n")
    assert run(gatemark, folder, "--cache").code == 1
    (folder / "app.py").write_text(
        f"{POISON}\ndef answer(text):\n"
        "    poison('**/judge-golden-candidate-*.journal', b'INCORRECT', b'CORRECT')\n"
        "    return text\n"
    )
    ran = run(gatemark, folder, "--cache")
    assert ran.code == 4, ran.out + ran.err


def test_the_result_says_how_many_replies_of_judges_were_reused(
    gatemark: Run, folder: Path
) -> None:
    (folder / "pack.yaml").write_text(JUDGED)
    (folder / "app.py").write_text(RIGHT)
    first = run(gatemark, folder, "--cache")
    assert first.code == 0
    assert "run.cached" not in caveats(first)
    again = run(gatemark, folder, "--cache")
    assert "120 replies of judges were reused (--cache)" in caveats(again)


def test_the_result_says_how_many_vectors_were_reused(gatemark: Run, folder: Path) -> None:
    def embed(request: Request) -> Answer:
        return Answer({"model": "tiny-1", "data": [{"index": 0, "embedding": [1.0, 0.5]}]})

    (folder / "app.py").write_text(RIGHT)
    with serving(embed) as server:
        options = f"{{base_url: '{server.url}', model: tiny, version: '1'}}"
        scorer = f"golden.jsonl, scorer: {{name: embedding, options: {options}}}"
        (folder / "pack.yaml").write_text(PACK.replace("golden.jsonl", scorer))
        assert run(gatemark, folder, "--cache").code == 0
        again = run(gatemark, folder, "--cache")
    assert f"{2 * ITEMS} replies of embedding models were reused (--cache)" in caveats(again)


def test_a_line_of_a_cache_that_somebody_wrote_is_told_as_reused(
    gatemark: Run, folder: Path
) -> None:
    """Whoever can write into the store can fill a cache; the first page says that it was used."""
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text("def answer(text):\n    return 'wrong'\n")
    assert run(gatemark, folder, "--cache").code == 1
    spoiler: dict[str, Any] = {"__file__": str(folder / "app.py")}
    exec(POISON, spoiler)
    (path,) = folder.glob("store/**/candidate-*.journal")
    spoiler["poison"]("**/candidate-*.journal", b'"wrong"', b'"SAY 1"')
    assert b"SAY 1" in path.read_bytes()
    ran = run(gatemark, folder, "--cache")
    assert f"{ITEMS} answers of the candidate were reused (--cache)" in caveats(ran)


ROUNDS = (
    PACK.replace("golden.jsonl", "many.jsonl")
    .replace("required_suites:", "adaptive: {looks: 3}\nrequired_suites:")
    .replace("regression_max: 0.1", "regression_max: 0.03")
)


def test_a_candidate_cannot_change_what_was_said_in_an_earlier_round(
    gatemark: Run, folder: Path
) -> None:
    rows = [{"id": f"r{n:04d}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(900)]
    (folder / "many.jsonl").write_text(lines(rows))
    (folder / "pack.yaml").write_text(ROUNDS)
    (folder / "app.py").write_text(
        f"{POISON}\ndef answer(text):\n"
        "    poison('**/baseline.journal', b'SAY', b'say')\n"
        "    return text if int(text.split()[-1]) % 33 == 0 else text.upper()\n"
    )
    ran = run(gatemark, folder)
    assert ran.code == 4, ran.out + ran.err
    assert "baseline.journal" in ran.err


@pytest.mark.parametrize("kind", ["baseline", "licence"])
def test_a_candidate_of_a_matrix_cannot_have_the_name_of_another_part(
    gatemark: Run, folder: Path, kind: str
) -> None:
    (folder / "app.py").write_text("def answer(text):\n    return 'wrong'\n")
    matrix = f"matrix:\n  try: {{{kind}: {{version: '2'}}, other: {{}}}}\n"
    (folder / "pack.yaml").write_text(PACK + matrix)
    ran = run(gatemark, folder)
    assert ran.code == 2, ran.out + ran.err
    assert f"{kind!r}" in ran.err
