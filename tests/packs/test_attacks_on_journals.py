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
    judged = gatemark(
        *("gate", again.json["id"], "--pack", folder / "pack.yaml"),
        *("--store", folder / "store", "--json"),
    )
    assert judged.json["id"] == again.json["id"]


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


@pytest.mark.parametrize("kind", ["baseline", "qualification"])
def test_a_candidate_of_a_matrix_cannot_have_the_name_of_another_part(
    gatemark: Run, folder: Path, kind: str
) -> None:
    (folder / "app.py").write_text("def answer(text):\n    return 'wrong'\n")
    matrix = f"matrix:\n  try: {{{kind}: {{version: '2'}}, other: {{}}}}\n"
    (folder / "pack.yaml").write_text(PACK + matrix)
    ran = run(gatemark, folder)
    assert ran.code == 2, ran.out + ran.err
    assert f"{kind!r}" in ran.err


KEY = "a secret of the build server, never of the candidate"
DOWN_AT = 30


def test_a_resumed_result_says_how_much_was_answered_before(gatemark: Run, folder: Path) -> None:
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(down_while("down"))
    (folder / "down").touch()
    held = run(gatemark, folder)
    assert held.code == 3, held.out + held.err
    assert "run.resumed" not in caveats(held)
    (folder / "down").unlink()
    resumed = run(gatemark, folder, "--resume")
    assert resumed.code == 0, resumed.out + resumed.err
    told = caveats(resumed)
    assert f"{DOWN_AT} answers of the candidate were reused (--resume)" in told
    assert f"{ITEMS} answers of the baseline were reused (--resume)" in told
    assert "GATEMARK_JOURNAL_KEY" in told
    assert resumed.json["runtime"]["resumed.candidate"] == str(DOWN_AT)
    page = gatemark("show", resumed.json["id"], "--store", folder / "store")
    assert "were reused (--resume)" in page.out
    again = gatemark(
        *("gate", resumed.json["id"], "--pack", folder / "pack.yaml"),
        *("--store", folder / "store", "--json"),
    )
    assert again.json["id"] == resumed.json["id"]


def down_while(flag: str) -> str:
    """A candidate whose service is down for later items as long as a file exists."""
    return (
        "import pathlib, gatemark\n"
        "def answer(text):\n"
        f"    flag = pathlib.Path(__file__).parent / {flag!r}\n"
        f"    if int(text.split()[-1]) >= {DOWN_AT} and flag.exists():\n"
        "        raise gatemark.UnavailableError('down')\n"
        "    return text.upper()\n"
    )


def test_a_run_with_nothing_to_resume_has_no_such_caveat(gatemark: Run, folder: Path) -> None:
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(RIGHT)
    ran = run(gatemark, folder, "--resume")
    assert ran.code == 0
    assert "reused" not in caveats(ran)


def test_rounds_of_one_run_are_not_told_as_reused(gatemark: Run, folder: Path) -> None:
    rows = [{"id": f"r{n:04d}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(900)]
    (folder / "many.jsonl").write_text(lines(rows))
    (folder / "pack.yaml").write_text(ROUNDS)
    (folder / "app.py").write_text(
        "def answer(text):\n    return text if int(text.split()[-1]) % 33 == 0 else text.upper()\n"
    )
    ran = run(gatemark, folder)
    assert ran.json["verdict"] != "pass"
    assert "reused" not in caveats(ran)


def forge(folder: Path, glob: str, old: bytes, new: bytes) -> None:
    """What code of the candidate without ``isolate`` can do once a run is over."""
    spoiler: dict[str, Any] = {"__file__": str(folder / "app.py")}
    exec(POISON, spoiler)
    (path,) = folder.glob(f"store/{glob}")
    spoiler["poison"](glob, old, new)
    assert new in path.read_bytes()


@pytest.mark.parametrize("is_keyed", [True, False])
def test_with_a_key_a_forged_judge_in_the_cache_is_not_heard(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, is_keyed: bool
) -> None:
    if is_keyed:
        monkeypatch.setenv("GATEMARK_JOURNAL_KEY", KEY)
    (folder / "pack.yaml").write_text(JUDGED)
    (folder / "app.py").write_text("def answer(text):\n    return text\n")
    assert run(gatemark, folder, "--cache").code == 1
    forge(folder, "**/judge-golden-candidate-*.journal", b"INCORRECT", b"CORRECT")
    ran = run(gatemark, folder, "--cache")
    if is_keyed:
        assert ran.code == 1, ran.out + ran.err
        assert f"{ITEMS} replies of judges were reused" in caveats(ran)  # those about labels
        assert "GATEMARK_JOURNAL_KEY" not in caveats(ran)
        assert f"{ITEMS} line(s) set aside" in ran.err
    else:
        assert "not authenticated" in caveats(ran)


def test_with_a_key_a_forged_line_is_not_resumed(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_JOURNAL_KEY", KEY)
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(
        down_while("down").replace("return text.upper()", "return 'wrong'")
    )
    (folder / "down").touch()
    assert run(gatemark, folder).code == 3
    (folder / "down").unlink()
    forge(folder, "**/candidate.journal", b'"wrong"', b'"SAY 1"')
    ran = run(gatemark, folder, "--resume")
    assert ran.code == 1, ran.out + ran.err
    assert "answers of the candidate were reused" not in caveats(ran)
    assert f"{ITEMS} answers of the baseline were reused (--resume)" in caveats(ran)


def test_the_candidate_never_sees_the_key(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_JOURNAL_KEY", KEY)
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(
        "import os\n"
        "def answer(text):\n"
        "    return text if 'GATEMARK_JOURNAL_KEY' in os.environ else text.upper()\n"
    )
    assert run(gatemark, folder).code == 0


def test_a_short_key_is_refused(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_JOURNAL_KEY", "short")
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(RIGHT)
    ran = run(gatemark, folder, "--cache")
    assert ran.code == 2
    assert "GATEMARK_JOURNAL_KEY" in ran.err


def test_recorded_answers_come_from_their_file_never_from_a_journal(
    gatemark: Run, folder: Path
) -> None:
    """A journal line could say something else than the recording that the result names."""
    rows = [{"id": f"r{n:03d}", "input": f"say {n}", "target": "YES"} for n in range(ITEMS)]
    (folder / "golden.jsonl").write_text(lines(rows))
    (folder / "pack.yaml").write_text(PACK.replace("score_min: 0.0", "score_min: 0.9"))
    (folder / "app.py").write_text(down_while("down"))
    (folder / "old.py").write_text(down_while("down"))
    (folder / "down").touch()
    said = [
        {"schema": "gatemark.sample/1", "id": f"r{n:03d}", "output": "no"} for n in range(ITEMS)
    ]
    (folder / "said.jsonl").write_text(lines(said))
    arms = ("--candidate", folder / "said.jsonl")
    assert run(gatemark, folder, *arms).code == 3
    (folder / "down").unlink()
    forge(folder, "**/candidate.journal", b'"no"', b'"YES"')
    ran = run(gatemark, folder, *arms, "--resume")
    assert ran.code == 1, ran.out + ran.err
    assert "answers of the candidate were reused" not in caveats(ran)
