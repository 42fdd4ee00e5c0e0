"""Run many commands of Gatemark without loading Python and its libraries for each of them.

A server loads everything once. For each command it forks a child, which gets the caller's words,
folder, environment and standard streams, and behaves as a process that was started by hand. The
client is what a shell calls in place of ``gatemark``; it imports the standard library only.

    python command_server.py SOCKET                    serve
    python command_server.py SOCKET run WORDS          run one command
    python command_server.py SOCKET load MODULES.json  serve with these modules loaded only

``tests/forked.py`` asks it for processes without a client, which tests may kill, and for processes
of changed copies of the package, which find its libraries loaded.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
import types
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

MAX_REQUEST = 1 << 20
STREAMS = 3
FIXED = "GATEMARK_TEST_FIXED"
"""The variable that names a script to run before the command, in its process."""
# Scripts of other programs, and adapters of libraries that few have.
OWN_START = ("gatemark.ledger.migrations.", "gatemark.plugins.overhead.targets.")


def main() -> None:
    place, *rest = sys.argv[1:]
    if rest and rest[0] == "run":
        run_command(place, rest[1:])
    serve(place, json.loads(Path(rest[1]).read_bytes()) if rest else None)


def serve(place: str, modules: list[str] | None) -> NoReturn:
    """Answer callers until the process is ended, with everything or some modules loaded."""
    if modules is None:
        _load_everything()
    else:
        _load(modules)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, "threads do not survive a fork"
    # Collections in children leave alone what they share with this process.
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(place)
    listener.listen(16)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        caller, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _attend(caller)
        caller.close()


def _load_everything() -> None:
    import numpy  # noqa: F401, ICN001
    import scipy.stats  # noqa: F401
    import sqlalchemy  # noqa: F401

    import gatemark

    # Commands load most of what they need when they need it; a child would do so every time.
    for found in pkgutil.walk_packages(gatemark.__path__, "gatemark."):
        if not found.name.startswith(OWN_START) and not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def _load(modules: list[str]) -> None:
    for name in modules:
        # Some names stand for parts of other modules; what needs them loads them.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert "gatemark" not in sys.modules, "children load a copy of their own"


def _attend(caller: socket.socket) -> NoReturn:
    """Fork the command, tell its number, wait for it and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, _, _ = socket.recv_fds(caller, MAX_REQUEST, STREAMS)
    child = os.fork()
    if child == 0:
        caller.close()
        _become(json.loads(data), streams)
    caller.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        caller.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, mode in enumerate("rww"):
        file = os.fdopen(number, mode, encoding="utf-8", closefd=False)
        setattr(sys, ("stdin", "stdout", "stderr")[number], file)
    if source := request.get("source"):
        sys.path.insert(1, source)
    if fixed := os.environ.get(FIXED):
        runpy.run_path(fixed, run_name="__main__")
    if code := request.get("code"):
        _leave(_run_code(code, request["words"]))
    if script := request.get("script"):
        sys.argv = [script, *request["words"]]
        runpy.run_path(script, run_name="__main__")
        _leave(0)
    sys.argv = ["gatemark", *request["words"]]
    from gatemark.cli.main import main as gatemark

    _leave(gatemark(request["words"]))


def _run_code(code: str, words: list[str]) -> int:
    """Run ``python -c CODE WORDS``; gives its exit code."""
    sys.path[0] = str(Path.cwd())
    sys.argv = ["-c", *words]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ended.code is not None
    return 0


def _leave(code: int) -> NoReturn:
    """End as a process does that was started by hand, but leave its memory to the system.

    Freeing every module that was loaded takes longer than most commands.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_command(place: str, words: list[str]) -> NoReturn:
    """Have the server run a command, and end as it ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect(place)
        request = {"words": words, "folder": str(Path.cwd()), "environment": dict(os.environ)}
        socket.send_fds(server, [json.dumps(request).encode()], range(STREAMS))
        with server.makefile() as answers:
            child = int(answers.readline())

            def forward(number: int, _frame: FrameType | None) -> None:
                os.kill(child, number)

            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, forward)
            code = int(answers.readline() or 1)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
