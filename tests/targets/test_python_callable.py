from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.port import Call, TargetError
from gatemark.targets.python_callable import MAX_ABANDONED_THREADS, PythonTarget
from gatemark.targets.run_options import RunOptions

from .rigs import ask, questions, run

CALL = Call(id="q1", epoch=2, input="hi", sample={"lang": "en"}, variables={"tone": "dry"})


def _target(
    folder: Path, source: str, reference: str = "app:answer", **options: Any
) -> PythonTarget:
    (folder / "app.py").write_text(source, encoding="utf-8")
    return PythonTarget(reference, folder, clock=time.perf_counter, **options)


@pytest.mark.parametrize("inline", [True, False])
def test_a_plain_function_is_called_with_the_input(tmp_path: Path, inline: bool) -> None:
    target = _target(tmp_path, "def answer(q):\n    return q.upper()\n", inline=inline)
    reply = ask(target, CALL)
    assert reply.output == "HI"
    assert reply.latency_ms is not None
    assert reply.latency_ms >= 0


def test_an_async_function_is_awaited(tmp_path: Path) -> None:
    source = "import asyncio\nasync def answer(q):\n    await asyncio.sleep(0)\n    return q * 2\n"
    assert ask(_target(tmp_path, source), CALL).output == "hihi"


def test_an_object_with_an_async_call_is_awaited(tmp_path: Path) -> None:
    source = "class Bot:\n    async def __call__(self, q):\n        return q\nanswer = Bot()\n"
    assert ask(_target(tmp_path, source), CALL).output == "hi"


def test_a_mapping_tells_more_than_the_output(tmp_path: Path) -> None:
    source = (
        "def answer(q):\n"
        "    return {'output': {'label': 'a'}, 'confidence': 0.9, 'cost': 0.01, 'model': 'm1'}\n"
    )
    reply = ask(_target(tmp_path, source), CALL)
    assert (reply.output, reply.confidence, reply.cost, reply.model) == (
        {"label": "a"},
        0.9,
        0.01,
        "m1",
    )


def test_parameters_are_filled_by_name(tmp_path: Path) -> None:
    source = (
        "def answer(q, sample, *, epoch, id, variables=None):\n"
        "    return [q, sample, epoch, id, variables]\n"
    )
    target = _target(tmp_path, source, fields=("lang", "missing"))
    assert target.reads == {"input", "sample", "variables"}
    assert ask(target, CALL).output == ["hi", {"lang": "en"}, 2, "q1", {"tone": "dry"}]


def test_a_function_that_reads_the_input_alone_says_so(tmp_path: Path) -> None:
    target = _target(tmp_path, "def answer(q, limit=3):\n    return q\n")
    assert target.reads == {"input"}
    assert ask(target, CALL).output == "hi"


@pytest.mark.parametrize("inline", [True, False])
def test_an_exception_is_a_crash_with_its_place(tmp_path: Path, inline: bool) -> None:
    source = "def answer(q):\n    raise KeyError(q)\n"
    with pytest.raises(
        TargetError, match=r"app:answer raised KeyError: 'hi' \(app.py:2\)"
    ) as caught:
        ask(_target(tmp_path, source, inline=inline), CALL)
    assert caught.value.kind == "crash"
    assert caught.value.retryable


@pytest.mark.parametrize("inline", [True, False])
def test_a_function_that_exits_does_not_end_the_run(tmp_path: Path, inline: bool) -> None:
    source = "import sys\ndef answer(q):\n    sys.exit(3)\n"
    with pytest.raises(TargetError, match="raised SystemExit: 3"):
        ask(_target(tmp_path, source, inline=inline), CALL)


def test_returning_nothing_is_a_bad_reply(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="app:answer returned None"):
        ask(_target(tmp_path, "def answer(q):\n    pass\n"), CALL)


def test_returning_a_coroutine_is_a_bad_reply(tmp_path: Path) -> None:
    source = "async def inner(q):\n    return q\ndef answer(q):\n    return inner(q)\n"
    with pytest.raises(TargetError, match="declare it with async def"):
        ask(_target(tmp_path, source), CALL)


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("app", "must look like 'module:function', got 'app'"),
        ("app:", "must look like"),
        ("os.path/x:y", "must look like"),
        ("nowhere_at_all:answer", "no module 'nowhere_at_all'"),
        ("app:anwser", "has no function 'anwser'"),
        ("app:LIMIT", "must be a function, got int"),
        ("app:needs_more", "asks for 'threshold', which a call does not have"),
        ("app:takes_nothing", "must take the input as first parameter"),
    ],
)
def test_a_wrong_reference_is_explained(tmp_path: Path, reference: str, complaint: str) -> None:
    source = (
        "LIMIT = 3\ndef answer(q): return q\n"
        "def needs_more(q, threshold): return q\ndef takes_nothing(): return 1\n"
    )
    before = list(sys.path)
    with pytest.raises(UsageError, match=complaint):
        _target(tmp_path, source, reference)
    assert sys.path == before
    assert "app" not in sys.modules


def test_a_missing_dependency_is_not_mistaken_for_a_missing_module(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="app needs module 'not_here_either'"):
        _target(tmp_path, "import not_here_either\ndef answer(q): return q\n")


def test_a_module_that_fails_to_load_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="importing app raised ZeroDivisionError"):
        _target(tmp_path, "1 / 0\ndef answer(q): return q\n")


def test_loading_leaves_no_bytecode_in_the_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    ask(_target(tmp_path, "def answer(q):\n    return q\n"), CALL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py"]


def test_two_folders_may_have_modules_of_the_same_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        target = _target(tmp_path / name, f"def answer(q):\n    return {name!r}\n")
        assert ask(target, CALL).output == name
    assert "app" not in sys.modules
    assert not any(entry.startswith(str(tmp_path)) for entry in sys.path)


def test_a_pack_module_with_a_loaded_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def answer(q): return q\n")
    with pytest.raises(UsageError, match="module 'json' of this pack has the name of one"):
        PythonTarget("json:answer", tmp_path, clock=time.perf_counter)
    assert sys.modules["json"] is json


def test_an_import_inside_the_function_finds_the_folder(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text("WORD = 'late'\n")
    source = "def answer(q):\n    from later import WORD\n    return WORD\n"
    assert ask(_target(tmp_path, source), CALL).output == "late"
    assert "later" not in sys.modules


def test_the_identity_changes_with_every_source_it_imports(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("from . import words\n")
    (tmp_path / "lib" / "words.py").write_text("HELLO = 'a'\n")
    (tmp_path / "unrelated.py").write_text("x = 1\n")
    source = "import json\nfrom lib import words\ndef answer(q):\n    return words.HELLO\n"

    def look() -> tuple[dict[str, Any], Any]:
        target = _target(tmp_path, source)
        return target.identity(), ask(target, CALL).output

    first, said = look()
    assert said == "a"
    assert sorted(first["sources"]) == ["app.py", "lib/__init__.py", "lib/words.py"]
    (tmp_path / "unrelated.py").write_text("x = 2\n")
    assert look()[0] == first
    (tmp_path / "lib" / "words.py").write_text("HELLO = 'b'\n")
    second, said = look()
    assert said == "b"
    changed = [n for n in first["sources"] if first["sources"][n] != second["sources"][n]]
    assert changed == ["lib/words.py"]


def test_hanging_calls_time_out_and_the_others_go_on(tmp_path: Path) -> None:
    source = (
        "import time\ndef answer(q):\n"
        "    if q.endswith(('1', '3')):\n        time.sleep(30)\n    return q\n"
    )
    outcomes = run(
        _target(tmp_path, source), questions(6), RunOptions(concurrency=2, timeout_s=0.2)
    )
    assert [o.error.kind if o.error else "ok" for o in outcomes] == [
        "ok",
        "timeout",
        "ok",
        "timeout",
        "ok",
        "ok",
    ]
    assert outcomes[1].error is not None
    assert outcomes[1].error.message == "no reply within 0.2 s"


def test_hanging_threads_do_not_pile_up_for_ever(tmp_path: Path) -> None:
    source = "import time\ndef answer(q):\n    time.sleep(8)\n"
    calls = questions(MAX_ABANDONED_THREADS + 2)
    outcomes = run(_target(tmp_path, source), calls, RunOptions(timeout_s=0.01))
    kinds = [o.error.kind for o in outcomes if o.error]
    assert kinds == ["timeout"] * MAX_ABANDONED_THREADS + ["crash", "crash"]
    assert outcomes[-1].error is not None
    assert "has 32 calls that never ended" in outcomes[-1].error.message
