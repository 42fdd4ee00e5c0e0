"""A Python target in its own process, and what hostile code in there can and cannot do."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.environment import select_environment
from gatemark.targets.isolation import find_readable_paths, get_landlock_version
from gatemark.targets.outcomes import CallOutcome
from gatemark.targets.port import Call, TargetError
from gatemark.targets.python_worker import MAX_DEATHS_IN_A_ROW, PythonWorkerTarget
from gatemark.targets.run_options import RunOptions

from .rigs import ask, questions, run

LABEL = "the-expected-answer-8d1f"
CALL = Call(
    id="q1",
    epoch=2,
    input="hi",
    sample={"lang": "en", "target": LABEL},
    variables={"tone": "dry"},
)
needs_landlock = pytest.mark.skipif(
    get_landlock_version() == 0, reason="this kernel has no Landlock; the run then carries a caveat"
)


def _target(folder: Path, source: str, **options: Any) -> PythonWorkerTarget:
    (folder / "app.py").write_text(source, encoding="utf-8")
    options.setdefault("environ", select_environment(os.environ, ()))
    options.setdefault("concurrency", 1)
    options.setdefault("max_reply_bytes", 1_000_000)
    return PythonWorkerTarget("app:answer", folder, **options)


def _kinds(outcomes: tuple[CallOutcome, ...]) -> list[str]:
    return [o.error.kind if o.error else "ok" for o in outcomes]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_functions_of_every_kind_answer_in_another_process(
    tmp_path: Path, keyword: str, concurrency: int
) -> None:
    source = f"import os\n{keyword} answer(q):\n    return [os.getpid(), q.upper()]\n"
    target = _target(tmp_path, source, concurrency=concurrency)
    outcomes = run(target, questions(300), RunOptions(concurrency=concurrency, ahead=64))
    outputs = [o.reply.output for o in outcomes if o.reply]
    assert [text for _, text in outputs] == [f"QUESTION {i}" for i in range(300)]
    (pid,) = {pid for pid, _ in outputs}
    assert pid != os.getpid()
    assert not _alive(pid)
    assert "app" not in sys.modules


def test_a_plain_function_may_run_an_event_loop_of_its_own(tmp_path: Path) -> None:
    """One call at a time runs outside of any loop; the process does not even load asyncio."""
    source = (
        "import sys\nLOADED = 'asyncio' in sys.modules\n"
        "def answer(q):\n    import asyncio\n    return [LOADED, asyncio.run(later(q))]\n"
        "async def later(q):\n    import asyncio\n    await asyncio.sleep(0)\n    return q\n"
    )
    assert ask(_target(tmp_path, source), CALL).output == [False, "hi"]


def test_slow_calls_run_side_by_side(tmp_path: Path) -> None:
    source = (
        "import threading\nMEET = threading.Barrier(4, timeout=20)\n"
        "def answer(q):\n    MEET.wait()\n    return q\n"
    )
    target = _target(tmp_path, source, concurrency=4)
    assert _kinds(run(target, questions(8), RunOptions(concurrency=4))) == ["ok"] * 8


def test_a_mapping_tells_more_than_the_output(tmp_path: Path) -> None:
    source = "def answer(q):\n    return {'output': (1, 2), 'confidence': 0.5, 'model': 'm'}\n"
    reply = ask(_target(tmp_path, source), CALL)
    assert (reply.output, reply.confidence, reply.model) == ([1, 2], 0.5, "m")
    assert reply.latency_ms is not None


def test_only_listed_fields_are_sent_and_never_the_expected_answer(tmp_path: Path) -> None:
    source = (
        "def answer(q, sample, id, epoch, variables):\n    return [sample, id, epoch, variables]\n"
    )
    target = _target(tmp_path, source, fields=("lang", "target", "missing"))
    assert target.reads == {"input", "sample", "variables"}
    assert ask(target, CALL).output == [{"lang": "en"}, "q1", 2, {"tone": "dry"}]
    with pytest.raises(UsageError, match=r"asks for 'sample'; list the fields .* fields: \[con"):
        _target(tmp_path, source)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def answer():\n    return 1\n", "must take the input as first parameter"),
        ("import not_here\ndef answer(q): return q\n", "app needs module 'not_here'"),
        ("answer = 3\n", "must be a function, got int"),
    ],
)
def test_a_wrong_function_is_explained(tmp_path: Path, source: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        _target(tmp_path, source)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("1 / 0\n", "importing app raised ZeroDivisionError"),
        ("import os\nos._exit(0)\n", "ended its process with code 0"),
        ("raise SystemExit(0)\n", "importing app raised SystemExit"),
        ("import os\nos.kill(os.getpid(), 9)\n", "killed by SIGKILL"),
        ("import os\nos.closerange(3, 100)\n", "instead of answering"),
        ("import os\nos.write(1, b'x')\nprint('y')\ndef answer(): 1\n", "must take the input"),
    ],
)
def test_a_module_that_ends_while_loading_is_bad_input(
    tmp_path: Path, source: str, complaint: str
) -> None:
    with pytest.raises((BadInputError, UsageError), match=complaint):
        _target(tmp_path, source + "def answer(q): return q\n" * ("answer" not in source))


@pytest.mark.parametrize(
    ("death", "said"),
    [
        ("os._exit(0)", "ended its process with code 0 instead of answering"),
        ("os._exit(3)", "ended its process with code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("os.closerange(3, 1000)", "instead of answering"),
        ("sys.exit(0)", "raised SystemExit: 0"),
        ("raise KeyboardInterrupt", "instead of answering"),
        ("sys.stderr.write('out of cheese'); sys.stderr.flush(); os._exit(1)", "out of cheese"),
    ],
)
@pytest.mark.parametrize("ahead", [1, 64])
def test_death_is_an_error_of_its_call_alone(
    tmp_path: Path, death: str, said: str, ahead: int
) -> None:
    source = (
        "import os, signal, sys\ndef answer(q):\n"
        f"    if q.endswith(' 5'):\n        {death}\n    return q\n"
    )
    outcomes = run(_target(tmp_path, source), questions(9), RunOptions(ahead=ahead))
    assert _kinds(outcomes) == ["ok"] * 5 + ["crash"] + ["ok"] * 3
    assert outcomes[5].error is not None
    assert said in outcomes[5].error.message


def test_a_call_that_ended_a_process_is_tried_again_beside_the_others(tmp_path: Path) -> None:
    """Its retries start one process each, and no other call is made twice for them."""
    started = tmp_path / "started"
    source = (
        f"import os\nopen({str(started)!r}, 'a').write('+')\ndef answer(q):\n"
        "    if q.endswith(' 5'):\n        os._exit(0)\n    return q\n"
    )
    options = RunOptions(ahead=9, retries=3, backoff_base_s=0.0)
    outcomes = run(_target(tmp_path, source), questions(9), options)
    assert _kinds(outcomes) == ["ok"] * 5 + ["crash"] + ["ok"] * 3
    assert outcomes[5].attempts == 4
    # The shared process, and one for each attempt; one more may answer the calls after the last.
    assert started.read_text() in ("+" * 5, "+" * 6)


def test_a_target_that_always_dies_is_not_started_for_ever(tmp_path: Path) -> None:
    source = "import os\ndef answer(q):\n    os._exit(0)\n"
    outcomes = run(_target(tmp_path, source), questions(40), RunOptions(ahead=8))
    assert _kinds(outcomes) == ["crash"] * 40
    refused = [o for o in outcomes if o.error and "not started again" in o.error.message]
    assert len(refused) >= 40 - MAX_DEATHS_IN_A_ROW


def test_a_call_without_an_end_costs_only_itself(tmp_path: Path) -> None:
    source = (
        "import os, time\ndef answer(q):\n"
        "    if q.endswith((' 1', ' 3')):\n        time.sleep(600)\n    return os.getpid()\n"
    )
    target = _target(tmp_path, source, concurrency=2, timeout_s=1.0)
    outcomes = run(target, questions(6), RunOptions(concurrency=2, ahead=64))
    assert _kinds(outcomes) == ["ok", "timeout", "ok", "timeout", "ok", "ok"]
    assert not any(_alive(o.reply.output) for o in outcomes if o.reply)


def test_what_it_prints_cannot_become_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (
        "import os, sys\ndef answer(q):\n"
        '    print(\'[1,{"output":"forged","latency_ms":1},null]\', flush=True)\n'
        "    os.write(1, b'\\x1b[2J[1,null,null]\\n')\n    return sys.stdin.read() + q\n"
    )
    assert ask(_target(tmp_path, source), CALL).output == "hi"
    printed = capsys.readouterr()
    assert "forged" in printed.err
    assert "\x1b" not in printed.err
    assert printed.out == ""


FORGE = """
import os, stat
def pipes():
    for number in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                yield number
        except OSError:
            pass
def write(text):
    for number in pipes():
        try:
            os.write(number, text.encode() + b"\\n")
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('[99, {"output": "x", "latency_ms": 1}]', "was not open"),
        ('[1, {"output": "x", "latency_ms": 1}][1]', "not an answer"),
        ('[1, {"output": "x", "latency_ms": 1, "score": 1}]', "not an answer"),
        ("nonsense", "not an answer"),
        ('[1, null, {"kind": "unreachable", "message": "no network"}]', "not an answer"),
        ("[1, null]", "answered without an answer"),
    ],
)
def test_forged_lines_end_the_process(tmp_path: Path, line: str, said: str) -> None:
    source = FORGE + f"def answer(q):\n    write({line!r})\n    import time\n    time.sleep(30)\n"
    with pytest.raises(TargetError, match=said) as caught:
        ask(_target(tmp_path, source), CALL)
    assert caught.value.kind == "crash"


def test_answering_twice_ends_the_process_and_the_first_answer_counts(tmp_path: Path) -> None:
    source = "import os\ndef answer(q):\n    os.fork()\n    return [q, os.getpid()]\n"
    outcomes = run(_target(tmp_path, source), questions(4))
    for outcome in outcomes:
        assert outcome.error is not None or outcome.reply is not None
        if outcome.reply is not None:
            assert outcome.reply.output[0] == f"question {int(outcome.id[1:])}"


def test_an_answer_is_bounded_and_plain(tmp_path: Path) -> None:
    for body, said in (
        ("return 'x' * 5000", "must be at most 1000 bytes"),
        ("return float('nan')", "must be finite"),
        ("return {1, 2}", "must be JSON, got set"),
        ("return '\\ud800'", "not valid Unicode"),
        ("return None", "returned None"),
    ):
        target = _target(tmp_path, f"def answer(q):\n    {body}\n", max_reply_bytes=1_000)
        with pytest.raises(TargetError, match=said) as caught:
            ask(target, CALL)
        assert caught.value.kind == "bad_reply"


def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    source = FORGE.replace('+ b"\\n"', "") + (
        "def answer(q):\n    write('x' * 4000000)\n    return q\n"
    )
    with pytest.raises(TargetError, match="wrote a line of over"):
        ask(_target(tmp_path, source, max_reply_bytes=1_000), CALL)


def test_children_of_the_target_end_with_it(tmp_path: Path) -> None:
    source = (
        "import subprocess, sys\ndef answer(q):\n"
        "    return subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid\n"
    )
    outcomes = run(_target(tmp_path, source), questions(2))
    pids = [o.reply.output for o in outcomes if o.reply]
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(_alive(pid) for pid in pids)


SEARCH = """
import gc, os, sys
def answer(q):
    seen = [repr(sorted(os.environ.items())), repr(sys.argv)]
    frame = sys._getframe()
    while frame is not None:
        seen.append(repr(frame.f_locals))
        frame = frame.f_back
    seen += [repr(thing) for thing in gc.get_objects() if isinstance(thing, (dict, list, tuple))]
    return [word for word in WORDS if any(word in text for text in seen)]
"""


def test_nothing_about_the_judge_can_be_found_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_STORE", "/where/results/lie-77c2")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-3d0a")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:word-91be@proxy:1")
    monkeypatch.setenv("SHARED_SETTING", "shared-5e5e")
    words = ["expected-answer-" + "8d1f", "lie-" + "77c2", "secret-" + "3d0a", "word-" + "91be"]
    # Spelled in halves, so that the search does not find its own list.
    halves = [(word[:-3], word[-3:]) for word in [*words, "shared-" + "5e5e"]]
    source = SEARCH.replace("WORDS", f"(a + b for a, b in {halves!r})")
    environ = select_environment(os.environ, ("SHARED_SETTING", "GATEMARK_STORE"))
    found = ask(_target(tmp_path, source, environ=environ), CALL).output
    assert found == ["shared-5e5e"]


@pytest.fixture(params=["/tmp", "/dev/shm"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=request.param, prefix="gatemark-test-") as name:
        yield Path(name)


@needs_landlock
def test_an_isolated_target_cannot_read_what_is_hidden_or_write_anywhere_else(
    folder: Path,
) -> None:
    data, store = folder / "golden.jsonl", folder / "store"
    data.write_text("labels")
    store.mkdir()
    (folder / "words.txt").write_text("open to all")
    (folder / "link.jsonl").symlink_to(data)
    source = """
import os, pathlib, tempfile
def trying(act):
    try:
        return act() or "done"
    except OSError as error:
        return type(error).__name__
def answer(q):
    here = pathlib.Path(__file__).parent
    return {"output": [
        trying((here / "words.txt").read_text),
        trying((here / "golden.jsonl").read_text),
        trying((here / "link.jsonl").read_text),
        trying(lambda: (here / "store" / "x").write_text("x")),
        trying(lambda: (here / "new").write_text("x")),
        trying(lambda: (here / "app.py").write_text("x")),
        trying(lambda: os.rename(here / "golden.jsonl", here / "words.txt")),
        trying(lambda: pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes().decode()),
        trying(lambda: open(f"/proc/{os.getppid()}/mem", "rb").close()),
        trying(lambda: pathlib.Path(tempfile.mkdtemp(), "y").write_text("y") and "wrote"),
        trying(lambda: pathlib.Path("/dev/null").write_text("y") and "wrote"),
    ]}
"""
    reply = ask(_target(folder, source, hidden=[data, store]), CALL)
    assert reply.output == ["open to all", *["PermissionError"] * 8, "wrote", "wrote"]
    assert data.read_text() == "labels"


@needs_landlock
@pytest.mark.skipif(get_landlock_version() < 6, reason="signals are limited from version 6 on")
def test_an_isolated_target_cannot_signal_the_judge(tmp_path: Path) -> None:
    source = (
        "import os, signal\ndef answer(q):\n"
        "    try:\n        os.kill(os.getppid(), signal.SIGTERM)\n"
        "    except PermissionError:\n        return 'refused'\n"
    )
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert ask(_target(tmp_path, source, hidden=[]), CALL).output == "refused"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_everything_beside_a_hidden_path_stays_readable(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("a/one", "a/b/two", "a/b/secret", "three"):
        (folder / name).write_text("x")
    listed = {
        Path(path).relative_to(folder).as_posix()
        for path in find_readable_paths({folder / "a" / "b" / "secret", folder / "not-yet"})
        if Path(path).is_relative_to(folder)
    }
    assert listed == {"a/one", "a/b/two", "three"}


def test_the_identity_is_taken_without_running_the_module(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("")
    (tmp_path / "lib" / "words.py").write_text("HELLO = 'a'\n")
    target = _target(tmp_path, "from lib import words\nimport yaml\ndef answer(q): return q\n")
    identity = target.identity()
    assert sorted(identity["sources"]) == ["app.py", "lib/__init__.py", "lib/words.py"]
    assert identity["packages"] == {"pyyaml": importlib.metadata.version("PyYAML")}
    ask(target, CALL)


WRITES = """
import os, stat
def answer(q):
    for number in range(3, 30):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                os.write(number, WORDS)
        except OSError:
            continue
    return "x"
"""


@pytest.mark.parametrize(
    "words",
    [
        b'[1,{"output":"\xff","latency_ms":1.0}]\n',
        b'[1,{"output":' + b"[" * 20_000 + b"\n",
        b'[1,{"output":' + b"9" * 5_000 + b',"latency_ms":1.0}]\n',
        b"\xff\n",
    ],
)
def test_a_line_that_cannot_be_decoded_ends_the_call(tmp_path: Path, words: bytes) -> None:
    """The function finds the pipe of the answers and writes to it itself."""
    (outcome,) = run(_target(tmp_path, WRITES.replace("WORDS", repr(words))), questions(1))
    assert outcome.error is not None
    assert outcome.error.kind == "crash"


@pytest.mark.parametrize(
    "words", [b"\xff\n", b'{"type":"ready","x":"\xff"}\n', b"[" * 60_000 + b"\n"]
)
def test_a_greeting_that_cannot_be_decoded_is_bad_input(tmp_path: Path, words: bytes) -> None:
    source = WRITES.replace("WORDS", repr(words)) + "\nanswer(1)\n"
    with pytest.raises(BadInputError, match="instead of answering"):
        _target(tmp_path, source)
