"""Candidates that rewrite what they are judged by: everything is read before their code runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import run_forked
from tests.targets.rigs import Answer, Request, serving

from gatemark.packs.similar_texts import is_rendering
from gatemark.targets.isolation import get_landlock_version

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
  candidate: {python: "app:answer"}
  baseline: BASELINE
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
  grader: {target: {python: "judging:judge"}, labels: labels.jsonl}
targets:
  candidate: {python: "app:answer"}
  baseline: none
"""
JUDGE = """
import re
def judge(prompt):
    nonce = re.search(r"<<<answer ([0-9a-f]+)>>>", prompt).group(1)
    said = re.search(rf"<<<answer {nonce}>>>\\n(.*?)\\n<<<end", prompt, re.S).group(1)
    return {"output": f"GRADE {nonce}: {'CORRECT' if RIGHT else 'INCORRECT'}"}
"""
SAYS = "def answer(text):\n    return {}\n"
RIGHT, WRONG = SAYS.format("text.upper()"), SAYS.format("'wrong'")


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n:03d}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(ITEMS)]
    (tmp_path / "golden.jsonl").write_text(lines(rows))
    return tmp_path


def attack(folder: Path, file: str, content: str, *, when: str, answer: str = "'wrong'") -> None:
    """A candidate that writes a file, at import or in its first call."""
    write = f"(pathlib.Path(__file__).parent / {file!r}).write_text({content!r})"
    at_import, in_call = (write, "pass") if when == "import" else ("", write)
    (folder / "app.py").write_text(
        f"import pathlib\n{at_import}\ndef answer(text):\n    {in_call}\n    return {answer}\n"
    )


def run(gatemark: Run, folder: Path, *more: object) -> Any:
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *more)


def number(result: Any, name: str) -> Any:
    return next(m["value"] for m in result["measurements"] if m["name"] == name)


def samples(output: str) -> str:
    row = {"schema": "gatemark.sample/1", "epoch": 1, "scores": {}}
    return lines([{**row, "id": f"r{n:03d}", "output": output.format(n=n)} for n in range(ITEMS)])


def judge_source(right: str) -> str:
    return JUDGE.replace("RIGHT", right)


def labels(*, right: str) -> str:
    return lines(
        [
            {
                "id": f"l{n}",
                "input": f"say {n}",
                "output": f"SAY {n}" if n % 2 else f"say {n}",
                "label": "CORRECT" if (n % 2 == 1) == (right == "upper") else "INCORRECT",
            }
            for n in range(60)
        ]
    )


@pytest.mark.parametrize("when", ["import", "call"])
def test_a_recorded_baseline_cannot_be_made_worse(gatemark: Run, folder: Path, when: str) -> None:
    (folder / "base.jsonl").write_text(samples("SAY {n}"))
    (folder / "pack.yaml").write_text(PACK.replace("BASELINE", "{recorded: base.jsonl}"))
    attack(folder, "base.jsonl", samples("wrong"), when=when)
    ran = run(gatemark, folder)
    assert ran.code == 1, ran.err
    assert number(ran.json, "baseline_score") == 1.0


@pytest.mark.parametrize("when", ["import", "call"])
def test_code_of_the_baseline_cannot_be_made_worse(gatemark: Run, folder: Path, when: str) -> None:
    (folder / "old.py").write_text(RIGHT)
    (folder / "pack.yaml").write_text(PACK.replace("BASELINE", '{python: "old:answer"}'))
    attack(folder, "old.py", WRONG, when=when)
    ran = run(gatemark, folder)
    assert ran.code != 0, ran.err
    assert number(ran.json, "baseline_score") in (1.0, None)


def test_a_baseline_that_starts_again_does_not_run_other_code(folder: Path) -> None:
    """The candidate rewrites the baseline and kills its process, which is then started again."""
    (folder / "old.py").write_text(RIGHT)
    (folder / "pack.yaml").write_text(PACK.replace("BASELINE", '{python: "old:answer"}'))
    (folder / "app.py").write_text(
        "import os, pathlib, signal\n"
        "HERE = pathlib.Path(__file__).parent\n"
        "def answer(text):\n"
        f"    (HERE / 'old.py').write_text({WRONG!r})\n"
        "    for place in pathlib.Path('/proc').glob('[0-9]*'):\n"
        "        try:\n"
        "            parent = int((place / 'stat').read_text().rpartition(')')[2].split()[1])\n"
        "        except OSError:\n"
        "            continue\n"
        "        if parent == os.getppid() and int(place.name) != os.getpid():\n"
        "            os.kill(int(place.name), signal.SIGKILL)\n"
        "    return 'wrong'\n"
    )
    # In a process of its own, whose children are the two arms; ours include servers of other tests.
    ran = run_forked("run", "pack.yaml", "--store", "store", "--json", folder=folder)
    assert ran.returncode in (1, 3), ran.stderr
    assert number(json.loads(ran.stdout), "baseline_score") in (1.0, None)


@pytest.mark.parametrize("when", ["import", "call"])
def test_files_that_a_baseline_declares_cannot_change_unseen(
    gatemark: Run, folder: Path, when: str
) -> None:
    (folder / "prompt.txt").write_text("right")
    (folder / "old.py").write_text(
        "import pathlib\n"
        "def answer(text):\n"
        "    how = (pathlib.Path(__file__).parent / 'prompt.txt').read_text()\n"
        "    return text.upper() if how == 'right' else 'wrong'\n"
    )
    baseline = '{python: "old:answer", files: [prompt.txt]}'
    (folder / "pack.yaml").write_text(PACK.replace("BASELINE", baseline))
    attack(folder, "prompt.txt", "wrong", when=when)
    ran = run(gatemark, folder)
    assert ran.code == 3, ran.err
    assert ran.json["blockers"][0].startswith("run.changed was not measured: baseline: prompt.txt")
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.err


@pytest.mark.parametrize("when", ["import", "call"])
def test_labels_of_a_judge_cannot_be_exchanged(gatemark: Run, folder: Path, when: str) -> None:
    """The judge disagrees with people; labels that agree with it would let it gate."""
    (folder / "pack.yaml").write_text(JUDGED)
    (folder / "judging.py").write_text(judge_source("not said.isupper()"))
    (folder / "labels.jsonl").write_text(labels(right="upper"))
    attack(folder, "labels.jsonl", labels(right="lower"), when=when)
    ran = run(gatemark, folder)
    assert ran.code == 3, ran.err
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.err


@pytest.mark.parametrize("when", ["import", "call"])
def test_a_judge_cannot_be_exchanged(gatemark: Run, folder: Path, when: str) -> None:
    (folder / "pack.yaml").write_text(JUDGED)
    (folder / "judging.py").write_text(judge_source("said.isupper()"))
    (folder / "labels.jsonl").write_text(labels(right="upper"))
    attack(folder, "judging.py", judge_source("said.isupper() or 'wrong' in said"), when=when)
    ran = run(gatemark, folder)
    assert ran.code in (1, 3), ran.err
    assert number(ran.json, "score") in (0.0, None)


def test_a_command_judge_that_changes_during_the_run_holds_the_verdict(
    gatemark: Run, folder: Path
) -> None:
    """A command is started when it is first asked, after the candidate's import."""
    program = (
        "import json, sys\n"
        + judge_source("said.isupper()").replace("import re", "import re")
        + "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    print(json.dumps({'id': asked['id'], **judge(asked['input'])}), flush=True)\n"
    )
    (folder / "pack.yaml").write_text(
        JUDGED.replace('{python: "judging:judge"}', "{command: [python3, judging.py]}")
    )
    (folder / "judging.py").write_text(program)
    (folder / "labels.jsonl").write_text(labels(right="upper"))
    lenient = program.replace("if said.isupper()", "if said.isupper() or 'wrong' in said")
    attack(folder, "judging.py", lenient, when="import")
    ran = run(gatemark, folder)
    assert ran.code == 3, ran.err
    assert ran.json["blockers"][0].startswith("run.changed was not measured: judge grader:")


def test_data_cannot_be_exchanged(gatemark: Run, folder: Path) -> None:
    rows = [{"id": f"r{n:03d}", "input": f"say {n}", "target": "wrong"} for n in range(ITEMS)]
    (folder / "pack.yaml").write_text(
        PACK.replace("BASELINE", "none").replace("score_min: 0.0", "score_min: 0.9")
    )
    attack(folder, "golden.jsonl", lines(rows), when="import")
    assert run(gatemark, folder).code == 1


@pytest.mark.skipif(get_landlock_version() == 0, reason="this kernel has no Landlock")
def test_an_isolated_candidate_cannot_read_a_baseline_of_the_command_line(
    gatemark: Run, folder: Path
) -> None:
    (folder / "base.jsonl").write_text(samples("SAY {n}"))
    (folder / "pack.yaml").write_text(
        PACK.replace("BASELINE", "none").replace('"app:answer"', '"app:answer", isolate: true')
    )
    (folder / "app.py").write_text(
        "import json, pathlib\n"
        "def answer(text):\n"
        "    for line in (pathlib.Path(__file__).parent / 'base.jsonl').open():\n"
        "        row = json.loads(line)\n"
        "        if row['output'] == text.upper():\n"
        "            return row['output']\n"
    )
    ran = run(gatemark, folder, "--baseline", folder / "base.jsonl")
    assert ran.code == 1, ran.err
    assert number(ran.json, "error_rate") == 1.0


PEEKS = """
import pathlib
def answer(text):
    for name in NAMES:
        try:
            open(name, "rb").close()
        except OSError:
            continue
        return "read " + name
    return text.upper()
"""


def isolated(folder: Path, names: list[str]) -> None:
    """A pack with an isolated candidate that answers wrongly if it can open one of the files."""
    text = PACK.replace("BASELINE", "none").replace("score_min: 0.0", "score_min: 0.9")
    (folder / "pack.yaml").write_text(text.replace('"app:answer"', '"app:answer", isolate: true'))
    (folder / "app.py").write_text(PEEKS.replace("NAMES", repr(names)))


@pytest.mark.skipif(get_landlock_version() == 0, reason="this kernel has no Landlock")
def test_a_store_named_from_another_folder_is_hidden_from_an_isolated_candidate(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is such a name: .gatemark where the command runs, and the pack in packs/."""
    for place in (".gatemark", "packs"):
        (tmp_path / place).mkdir()
    (tmp_path / ".gatemark" / "ledger.key").write_text("secret")
    rows = [{"id": f"r{n}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(ITEMS)]
    (tmp_path / "packs" / "golden.jsonl").write_text(lines(rows))
    isolated(tmp_path / "packs", [str(tmp_path / ".gatemark" / "ledger.key")])
    monkeypatch.chdir(tmp_path)
    ran = gatemark("run", "packs/pack.yaml", "--json")
    assert ran.code == 0, ran.json["blockers"]


@pytest.mark.skipif(get_landlock_version() == 0, reason="this kernel has no Landlock")
def test_the_history_around_a_pack_is_hidden_from_an_isolated_candidate(
    gatemark: Run, folder: Path
) -> None:
    """Earlier commits hold earlier labels, and settings of git name programs."""
    for place in (folder, folder.parent):
        (place / ".git").mkdir()
        (place / ".git" / "config").write_text("")
    isolated(folder, [str(place / ".git" / "config") for place in (folder, folder.parent)])
    ran = run(gatemark, folder)
    assert ran.code == 0, ran.json["blockers"]


@pytest.mark.skipif(get_landlock_version() == 0, reason="this kernel has no Landlock")
def test_passwords_and_blobs_of_a_database_are_hidden_from_an_isolated_candidate(
    gatemark: Run, folder: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, blobs = folder / "home", folder / "blobs"
    for name in (".postgresql", "keys"):
        (home / name).mkdir(parents=True)
    blobs.mkdir()
    secrets = [
        *(home / name for name in (".pgpass", ".pg_service.conf", ".postgresql/postgresql.key")),
        *(home / "keys" / name for name in ("pass", "service", "named.pass")),
        blobs / "older",
    ]
    for secret in secrets:
        secret.write_text("")
        secret.chmod(0o600)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PGPASSFILE", str(home / "keys" / "pass"))
    monkeypatch.setenv("PGSERVICEFILE", str(home / "keys" / "service"))
    isolated(folder, [str(secret) for secret in secrets])
    join = "&" if "?" in postgres_url else "?"
    store = f"{postgres_url}{join}blobs={blobs}&passfile={home / 'keys' / 'named.pass'}"
    ran = gatemark("run", folder / "pack.yaml", "--store", store, "--json")
    assert ran.code == 0, ran.err


EMBEDDED = """
[core]
    repositoryformatversion = 0
    bare = false
    worktree = FOLDER
    fsmonitor = "touch FOLDER/ran; false"
"""


@pytest.mark.parametrize("place", [".", ".git"])
def test_settings_of_git_in_the_folder_of_a_pack_run_nothing(
    gatemark: Run, folder: Path, place: str
) -> None:
    """A change can bring the files of a bare repository; git takes its settings for its own."""
    (folder / "pack.yaml").write_text(PACK.replace("BASELINE", "none"))
    (folder / "app.py").write_text(RIGHT)
    subprocess.run(["git", "init", "-q", "--bare", folder / place], check=True)
    (folder / place / "config").write_text(EMBEDDED.replace("FOLDER", str(folder)))
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    git += ["-c", "core.fsmonitor=false"]
    subprocess.run([*git, "add", "app.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    ran = run(gatemark, folder)
    assert ran.code == 0, ran.err
    assert not (folder / "ran").exists()
    assert ("git.commit" in ran.json["runtime"]) == (place == ".git")


def test_the_commit_is_that_of_the_start(gatemark: Run, folder: Path) -> None:
    """A candidate that commits its own changes does not pass for a clean checkout."""
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    (folder / "pack.yaml").write_text(PACK.replace("BASELINE", "none"))
    (folder / "app.py").write_text(RIGHT)
    for words in (["init", "-q"], ["add", "pack.yaml", "app.py"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    first = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    commit = [*git, "commit", "-qam", "hidden"]
    (folder / "app.py").write_text(
        f"import subprocess\nsubprocess.run({commit!r}, check=False)\n" + RIGHT
    )
    ran = run(gatemark, folder)
    assert ran.json["runtime"]["git.commit"] == first.stdout.strip()
    assert ran.json["runtime"]["git.dirty"] == "True"


def recording(folder: Path, rows: list[dict[str, Any]], *, name: str = "cand.jsonl") -> None:
    row = {"schema": "gatemark.sample/1", "scores": {}, "epoch": 1}
    (folder / name).write_text(lines([{**row, **each} for each in rows]))


def recorded_pack(folder: Path, *, baseline: str = "none", suite: str = "") -> None:
    text = PACK.replace('{python: "app:answer"}', "{recorded: cand.jsonl}")
    text = text.replace("BASELINE", baseline).replace("golden.jsonl}", f"golden.jsonl{suite}}}")
    (folder / "pack.yaml").write_text(text)


def test_a_log_cannot_show_the_best_of_several_tries(gatemark: Run, folder: Path) -> None:
    tries = [
        {"id": f"r{n:03d}", "epoch": epoch, "output": f"SAY {n}" if epoch == 1 else "wrong"}
        for n in range(ITEMS)
        for epoch in (1, 2, 3)
    ]
    recording(folder, tries)
    recorded_pack(folder)
    ran = run(gatemark, folder)
    assert ran.code == 3, ran.err
    assert ran.json["blockers"][0].startswith(
        "run.unasked was not measured: candidate: the log has 120 answers beyond what the pack "
        "asks for, such as epoch 2 of 'r000'; set epochs"
    )
    recorded_pack(folder, suite=", epochs: 3")
    asked = run(gatemark, folder)
    assert asked.code == 0, asked.out
    assert number(asked.json, "score") == pytest.approx(1 / 3)


def test_answers_to_other_inputs_are_told(gatemark: Run, folder: Path) -> None:
    rows = [
        {"id": f"r{n:03d}", "input": f"say {n}" if n else "other", "output": f"SAY {n}"}
        for n in range(ITEMS)
    ]
    recording(folder, rows)
    recorded_pack(folder)
    ran = run(gatemark, folder)
    assert ran.code == 0
    (told,) = [caveat for caveat in ran.json["caveats"] if caveat.startswith("run.other_inputs")]
    assert "1 of 60 recorded answers were given to another input" in told


OTHERS = ["What is the capital of France?", [{"role": "user", "content": "Name a river."}]]


@pytest.mark.parametrize("other", OTHERS, ids=["text", "messages"])
def test_a_log_of_other_questions_holds_the_verdict(
    gatemark: Run, folder: Path, other: object
) -> None:
    rows = [{"id": f"r{n:03d}", "input": other, "output": f"SAY {n}"} for n in range(ITEMS)]
    recording(folder, rows)
    recorded_pack(folder)
    ran = run(gatemark, folder)
    assert ran.code == 3, ran.out + ran.err
    assert ran.json["blockers"][0].startswith(
        "run.unrelated_inputs was not measured: candidate: 60 of 60 recorded answers were given to "
        "inputs that do not contain the data's input, such as 'r000'"
    )
    assert gatemark("ledger", "verify", "--rescore", "--store", folder / "store").code == 0


RENDERED: dict[str, Callable[[int], object]] = {
    "prompt": lambda n: f"You are loud.\n\nSay   {n}!\nAnswer:",
    "messages": lambda n: [
        {"role": "system", "content": "Be loud."},
        {"role": "user", "content": [{"type": "text", "text": f"say {n}"}]},
    ],
    "variables": lambda n: {"question": f"say {n}", "style": "loud"},
    "nothing": lambda _: None,
}
STRUCTURED = {
    "as it is": {"question": "how much is 12 and 30", "locale": "en"},
    "rendered": "Answer in two words. How much is 12 and 30?",
    "another system prompt": [
        {"role": "system", "content": "Answer in two words, and be brief about it."},
        {"role": "user", "content": "how much is 12 and 30"},
    ],
}


@pytest.mark.parametrize("given", STRUCTURED.values(), ids=STRUCTURED)
@pytest.mark.parametrize("asked", [STRUCTURED["as it is"], STRUCTURED["another system prompt"]])
def test_structured_inputs_are_known_by_one_of_their_texts(asked: object, given: object) -> None:
    assert is_rendering(given, [asked])
    assert not is_rendering("name a river in Africa", [asked])


@pytest.mark.parametrize("render", RENDERED.values(), ids=RENDERED)
def test_inputs_that_hold_the_question_are_renderings_of_it(
    gatemark: Run, folder: Path, render: Callable[[int], object]
) -> None:
    rows = [{"id": f"r{n:03d}", "input": render(n), "output": f"SAY {n}"} for n in range(ITEMS)]
    recording(folder, rows)
    recorded_pack(folder)
    ran = run(gatemark, folder)
    assert ran.code == 0, ran.out + ran.err
    assert "unrelated" not in ran.out


def test_the_log_of_the_baseline_as_candidate_is_told(gatemark: Run, folder: Path) -> None:
    recording(folder, [{"id": f"r{n:03d}", "output": f"SAY {n}"} for n in range(ITEMS)])
    (folder / "pack.yaml").write_text(PACK.replace("BASELINE", "{recorded: cand.jsonl}"))
    (folder / "app.py").write_text(RIGHT)
    ran = run(gatemark, folder, "--candidate", folder / "cand.jsonl")
    assert ran.code == 0
    assert any(
        "candidate and baseline are the same, so nothing was compared" in caveat
        for caveat in ran.json["caveats"]
    )


@pytest.mark.parametrize(("pinned", "code"), [("", 3), (", version: blue-green", 0)])
def test_a_model_that_changes_midway_holds_the_verdict(
    gatemark: Run, folder: Path, pinned: str, code: int
) -> None:
    calls = iter(range(1_000))

    def answer(request: Request) -> Answer:
        said = request.body["messages"][-1]["content"].upper()
        model = "old" if next(calls) < ITEMS // 2 else "new"
        return Answer({"choices": [{"message": {"content": said}}], "model": model})

    with serving(answer) as server:
        target = f"{{openai: {{base_url: '{server.url}', model: m}}{pinned}}}"
        text = PACK.replace('{python: "app:answer"}', target).replace("BASELINE", "none")
        (folder / "pack.yaml").write_text(text)
        ran = run(gatemark, folder)
    assert ran.code == code, ran.err
    if code:
        assert ran.json["blockers"][0].startswith(
            "run.models was not measured: candidate: several models answered (new, old)"
        )
    assert ran.json["runtime"]["model.candidate"] == "new, old"


def test_resume_does_not_take_replies_of_a_judge_that_changed(gatemark: Run, folder: Path) -> None:
    """A judge reads its rubric from a file that it declares."""
    reads = "import pathlib\n" + judge_source("said.isupper() or LENIENT").replace(
        "def judge(prompt):\n",
        "def judge(prompt):\n"
        "    LENIENT = (pathlib.Path(__file__).parent / 'how.txt').read_text() == 'lenient'\n",
    )
    (folder / "judging.py").write_text(reads)
    (folder / "how.txt").write_text("lenient")
    (folder / "labels.jsonl").write_text(labels(right="upper"))
    (folder / "pack.yaml").write_text(
        JUDGED.replace('"judging:judge"', '"judging:judge", files: [how.txt]').replace(
            '"app:answer"', '"app:answer", stop_after: 1'
        )
    )
    (folder / "app.py").write_text(
        "import pathlib, gatemark\n"
        "HERE = pathlib.Path(__file__).parent\n"
        "def answer(text):\n"
        "    if not (HERE / 'up').exists():\n"
        "        raise gatemark.UnavailableError('down')\n"
        "    return text.upper()\n"
    )
    down = run(gatemark, folder)
    assert down.code == 3
    (folder / "up").touch()
    (folder / "how.txt").write_text("strict")
    resumed = run(gatemark, folder, "--resume")
    assert resumed.code == 0, resumed.out + resumed.err
