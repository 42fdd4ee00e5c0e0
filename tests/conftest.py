from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
from tests.docs.transcript import DEMO_OF_PAGES, run_demo
from tests.in_memory import keep_files_in_memory
from tests.made_once import made_once
from tests.postgres_server import empty_place, real_postgres

from gatemark.cli.main import main
from gatemark.targets.workers.worker_process import WORKER

pytest_plugins = ["pytester"]

# The same commit is judged by the same examples everywhere; exploring is done on purpose.
# Time is never asserted: a busy machine is slow at drawing examples, too.
_PATIENT = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("steady", _PATIENT, derandomize=True)
hypothesis.settings.register_profile("explore", _PATIENT, derandomize=False)
hypothesis.settings.load_profile(os.environ.get("GATEMARK_EXAMPLES", "steady"))


keep_files_in_memory()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background ignores Ctrl-C, and so would the commands that tests stop with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and collected tests stay to the end: no search for garbage has to look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


class Ran(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _workers_of(process: int) -> dict[int, str]:
    """The workers of python targets that a process has started and that still run, by number."""
    found = {}
    numbers: list[str] = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        # A thread may end between the listing and the look; its children are then another thread's.
        with contextlib.suppress(OSError):
            numbers += listed.read_text().split()
    for number in numbers:
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            if WORKER.encode() in command:
                found[int(number)] = str(Path(f"/proc/{number}/cwd").readlink())
    return found


@pytest.fixture(autouse=True)
def _every_target_is_closed() -> Iterator[None]:
    """A worker that outlives its test is a target that nobody closed."""
    yield
    left = _workers_of(os.getpid())
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert not left, f"workers left running: {left}"


@pytest.fixture
def gatemark(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process, as a shell would."""

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return Ran(int(code), captured.out, captured.err)

    return run


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[[str, Sequence[Any]], Path]:
    """Write records, or raw lines, into a file of the test's own folder."""

    def write(name: str, records: Sequence[Any]) -> Path:
        path = tmp_path / name
        lines = [line if isinstance(line, str) else json.dumps(line) for line in records]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a real PostgreSQL, started once per test process and gone after it."""
    with real_postgres() as address:
        yield address


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: str) -> Callable[[], str]:
    """Gives the address of another empty place in a real PostgreSQL each time."""
    numbers = count(1)

    def make() -> str:
        return empty_place(postgres_server, f"test_{next(numbers)}")

    return make


@pytest.fixture
def postgres_url(new_postgres_url: Callable[[], str]) -> str:
    """The address of an empty place in a real PostgreSQL."""
    return new_postgres_url()


@pytest.fixture(scope="session")
def finished_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``gatemark-demo`` and what the demo printed; tests only look at it."""

    def copy(folder: Path) -> None:
        # Reading a store leaves files beside it for a moment; the pages copy one that nobody reads.
        of_pages = made_once(tmp_path_factory, DEMO_OF_PAGES, run_demo)
        shutil.copytree(of_pages, folder, dirs_exist_ok=True)

    return made_once(tmp_path_factory, "finished-demo", copy)
