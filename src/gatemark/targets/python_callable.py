"""A Python function, named as ``module:function``, called in the process that loads it.

A worker process uses this class (``worker_loop``); the judge does so only with ``in_process``.

The first parameter receives the input; further parameters called ``sample``, ``variables``, ``id``
or ``epoch`` receive those. ``sample`` has the fields of the item that the pack lists, and never the
expected answer. The function returns the output, or a mapping with ``output`` and optionally
``confidence``, ``cost``, ``model`` and ``usage``.

Plain functions run in daemon threads, because a hanging function can be abandoned but not stopped;
with one call at a time and no time limit they run in place, which costs nothing.

A function's identity includes digests of its module and of every module alongside it that this one
imports.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.text import did_you_mean
from gatemark.targets.port import (
    Call,
    CallPart,
    ForeignCode,
    Reply,
    TargetError,
    bad_reply,
    reply_from_fields,
    shared_fields,
)

if TYPE_CHECKING:
    import asyncio

MAX_ABANDONED_THREADS: Final = 32
_PASSED_BY_NAME: Final = ("id", "epoch", "sample", "variables")

Clock = Callable[[], float]


class PythonTarget:
    """Calls one function; the folder is importable until the target is closed."""

    def __init__(
        self,
        reference: str,
        folder: Path,
        *,
        clock: Clock,
        inline: bool = False,
        fields: tuple[str, ...] = (),
    ) -> None:
        self._reference = reference
        self._fields = fields
        self._folder = folder.resolve()
        self._clock = clock
        self._guard = ForeignCode(reference)
        self._idle: list[_Thread] = []
        self._abandoned: list[_Thread] = []
        module_name, function_name = split_reference(reference)
        self._known_before = _top_level_names()
        sys.path.insert(0, str(self._folder))
        with ExitStack() as undo:
            undo.callback(self._forget_folder)
            module = _load(module_name, self._folder)
            self._function = _function(module, function_name, reference)
            self.extras = _extra_parameters(self._function, reference, has_fields=bool(fields))
            self._sources = _sources(module, self._folder)
            undo.pop_all()
        self._is_async = inspect.iscoroutinefunction(self._function) or (
            inspect.iscoroutinefunction(type(self._function).__call__)
        )
        self.is_inline = inline and not self._is_async
        self.reads = parts_read(self.extras)

    async def call(self, call: Call) -> Reply:
        extras = {name: getattr(call, name) for name in self.extras}
        if "sample" in extras:
            extras["sample"] = shared_fields(call.sample, self._fields)
        started = self._clock()
        if self._is_async:
            with self._guard:
                value = await self._function(call.input, **extras)
            elapsed_s = self._clock() - started
        elif self.is_inline:
            with self._guard:
                value = self._function(call.input, **extras)
            elapsed_s = self._clock() - started
        else:
            value, elapsed_s = await self._in_thread(call.input, extras)
        return _reply(value, elapsed_s * 1000.0, self._reference)

    async def close(self) -> None:
        for thread in (*self._idle, *self._abandoned):
            thread.finish()
        self._idle.clear()
        self._forget_folder()

    def identity(self) -> dict[str, object]:
        return {"kind": "python", "function": self._reference, "sources": self._sources}

    async def _in_thread(self, value: object, extras: dict[str, object]) -> _Timed:
        thread = self._idle.pop() if self._idle else self._new_thread()
        finished = False
        try:
            result = await thread.ask(lambda: self._timed(value, extras))
            finished = True
        except TargetError:
            finished = True
            raise
        finally:
            if finished:
                self._idle.append(thread)
            else:
                thread.finish()
                self._abandoned.append(thread)
        return result

    def _timed(self, value: object, extras: dict[str, object]) -> _Timed:
        started = self._clock()
        with ForeignCode(self._reference, (TargetError,)):
            result = self._function(value, **extras)
        return (result, self._clock() - started)

    def _new_thread(self) -> _Thread:
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if len(self._abandoned) >= MAX_ABANDONED_THREADS:
            raise TargetError(
                "crash",
                f"{self._reference} has {len(self._abandoned)} calls that never ended; "
                "no more are started",
            )
        thread = _Thread()
        thread.start()
        return thread

    def _forget_folder(self) -> None:
        """Undo the import, so that another folder may have a module of the same name."""
        if str(self._folder) in sys.path:
            sys.path.remove(str(self._folder))
        for name in _top_level_names() - self._known_before:
            if _comes_from(sys.modules.get(name), self._folder):
                for loaded in [key for key in sys.modules if f"{key}.".startswith(f"{name}.")]:
                    del sys.modules[loaded]


def parts_read(extras: Iterable[str]) -> frozenset[CallPart]:
    """Return the parts of a call that reach a function with these further parameters."""
    asked = set(extras)
    parts: tuple[CallPart, ...] = ("sample", "variables")
    always: tuple[CallPart, ...] = ("input",)
    return frozenset((*always, *(part for part in parts if part in asked)))


_Timed = tuple[object, float]
"""The return value of a function, and its duration in seconds."""


class _Thread(threading.Thread):
    """A daemon, so that a function that never returns cannot keep the process alive."""

    def __init__(self) -> None:
        super().__init__(name="gatemark-target", daemon=True)
        self._jobs: SimpleQueue[
            tuple[Callable[[], _Timed], asyncio.AbstractEventLoop, asyncio.Future[_Timed]] | None
        ] = SimpleQueue()

    def ask(self, job: Callable[[], _Timed]) -> asyncio.Future[_Timed]:
        from asyncio import get_running_loop  # noqa: PLC0415 - a plain worker does without it

        loop = get_running_loop()
        future: asyncio.Future[_Timed] = loop.create_future()
        self._jobs.put((job, loop, future))
        return future

    def finish(self) -> None:
        self._jobs.put(None)

    def run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, loop, future = item
            try:
                settle = partial(future.set_result, job())
            except TargetError as error:
                settle = partial(future.set_exception, error)
            try:
                loop.call_soon_threadsafe(_settle, future, settle)
            except RuntimeError:
                return  # the loop is closed: the call was abandoned long ago


def _settle(future: asyncio.Future[_Timed], settle: Callable[[], None]) -> None:
    if not future.done():
        settle()


def split_reference(reference: str) -> tuple[str, str]:
    """Return module and function of ``module:function``."""
    module_name, colon, function_name = reference.partition(":")
    parts = (*module_name.split("."), *function_name.split("."))
    if not colon or not all(part.isidentifier() for part in parts):
        raise UsageError(f"python target must look like 'module:function', got {reference!r}")
    return module_name, function_name


def _load(module_name: str, folder: Path) -> ModuleType:
    top = module_name.split(".", 1)[0]
    loaded = sys.modules.get(top)
    ours = (folder / f"{top}.py").is_file() or (folder / top).is_dir()
    if loaded is not None and ours and not _comes_from(loaded, folder):
        raise UsageError(
            f"python target: module {top!r} of this pack has the name of one that is already "
            "loaded from elsewhere; rename it"
        )
    importlib.invalidate_caches()
    # Stale bytecode is detected by whole seconds and size, which is too coarse for a pin.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with ForeignCode(f"importing {module_name}", (ModuleNotFoundError, KeyboardInterrupt)):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            near = did_you_mean(module_name, [path.stem for path in folder.glob("*.py")])
            raise UsageError(
                f"python target: no module {module_name!r} in the pack's folder or installed{near}"
            ) from error
        raise UsageError(
            f"python target: {module_name} needs module {error.name!r}, which is not installed"
        ) from error
    except TargetError as error:
        raise BadInputError(f"python target: {error}") from error
    finally:
        sys.dont_write_bytecode = before


def _function(module: ModuleType, function_name: str, reference: str) -> Callable[..., Any]:
    found: object = module
    for step in function_name.split("."):
        if not hasattr(found, step):
            functions = [name for name, one in vars(found).items() if inspect.isroutine(one)]
            holder = Path(module.__file__ or module.__name__).name if found is module else found
            raise UsageError(
                f"python target: {holder} has no function {step!r}"
                f"{did_you_mean(step, functions)} (in {reference!r})"
            )
        found = getattr(found, step)
    if not callable(found):
        raise UsageError(
            f"python target: {reference!r} must be a function, got {type(found).__name__}"
        )
    function: Callable[..., Any] = found
    return function


def _extra_parameters(
    function: Callable[..., Any], reference: str, *, has_fields: bool
) -> tuple[str, ...]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()  # builtins may have no signature; they get the input alone
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise UsageError(f"python target: {reference!r} must take the input as first parameter")
    extras: list[str] = []
    for parameter in parameters[1:]:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.name == "sample" and not has_fields:
            if parameter.default is parameter.empty:
                raise UsageError(
                    f"python target: {reference!r} asks for 'sample'; list the fields of an item "
                    "that it may see, such as fields: [context] next to python:"
                )
        elif named and parameter.name in _PASSED_BY_NAME:
            extras.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise UsageError(
                f"python target: {reference!r} asks for {parameter.name!r}, which a call does "
                f"not have (known: {', '.join(_PASSED_BY_NAME)})"
            )
    return tuple(extras)


def _sources(module: ModuleType, folder: Path) -> dict[str, str]:
    file = getattr(module, "__file__", None)
    return source_digests(Path(file), folder) if file else {}


def _top_level_names() -> set[str]:
    return {name.split(".", 1)[0] for name in list(sys.modules)}


def _comes_from(module: ModuleType | None, folder: Path) -> bool:
    """Return whether a top-level module is directly in the folder, not in an environment."""
    file = getattr(module, "__file__", None)
    packages = [Path(place).parent for place in getattr(module, "__path__", ())]
    return folder in (packages or ([Path(file).parent] if file else []))


def _reply(value: object, latency_ms: float, reference: str) -> Reply:
    if isinstance(value, Reply):
        return value
    if isinstance(value, Mapping):
        return reply_from_fields(value, latency_ms)
    if value is None:
        raise bad_reply(f"{reference} returned None; an empty answer is {{'output': None}}")
    if inspect.iscoroutine(value):
        value.close()
        raise bad_reply(f"{reference} returned a coroutine; declare it with async def")
    return Reply(output=value, latency_ms=latency_ms)


MAX_SOURCE_BYTES = 16 * 1024 * 1024


def source_digests(source: Path, folder: Path) -> dict[str, str]:
    """Return digests of a module and of every module in the folder that it imports, recursively.

    Follows ``import`` statements, also those inside functions; modules named only by text at run
    time and data files are not seen.
    """
    folder = folder.resolve()
    digests: dict[str, str] = {}
    waiting = [source.resolve()]
    while waiting:
        path = waiting.pop()
        inside = path.is_relative_to(folder)
        name = path.relative_to(folder).as_posix() if inside else path.name
        if name in digests:
            continue
        if path.stat().st_size > MAX_SOURCE_BYTES:
            raise BadInputError(f"{name} must be at most {MAX_SOURCE_BYTES} bytes of source")
        text = path.read_bytes()
        digests[name] = digest_bytes(text)
        if inside and path.suffix == ".py":
            waiting.extend(_imported_files(text, path, folder))
    return dict(sorted(digests.items()))


def _imported_files(text: bytes, path: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return  # it cannot be imported either
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            if node.level > len(path.parents):
                continue
            base = path.parents[node.level - 1] if node.level else folder
            module = node.module or ""
            yield from _files_of(base, module)
            for alias in node.names:
                yield from _files_of(base, f"{module}.{alias.name}".lstrip("."))


def _files_of(base: Path, dotted: str) -> Iterator[Path]:
    """Yield the files that importing ``a.b.c`` runs: each package, then the module."""
    place = base
    for step in dotted.split("."):
        if not step:
            continue
        place = place / step
        for candidate in (place / "__init__.py", place.with_name(f"{step}.py")):
            if candidate.is_file():
                yield candidate.resolve()
                break


def module_file(module_name: str, folder: Path) -> Path | None:
    """Return the file of a module as a worker will find it, without running any of its code."""
    importlib.invalidate_caches()
    places: list[str] | None = [str(folder), *sys.path]
    found = None
    steps = module_name.split(".")
    for count in range(1, len(steps) + 1):
        found = PathFinder.find_spec(".".join(steps[:count]), places)
        if found is None:
            return None
        places = found.submodule_search_locations
    return Path(found.origin) if found and found.has_location and found.origin else None


def declared_digests(patterns: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the digests of the files that a pack declares, by path; each pattern must match."""
    folder = folder.resolve()
    digests: dict[str, str] = {}
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise UsageError(f"files: {pattern!r} must stay inside the pack's folder")
        matched = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
        if not matched:
            raise UsageError(f"files: no file matches {pattern!r} in {folder}")
        for path in matched:
            digests[path.relative_to(folder).as_posix()] = file_digest(path)
    return dict(sorted(digests.items()))


def file_digest(path: Path) -> str:
    """Return the digest of a file of any size."""
    with path.open("rb") as file:
        return DIGEST_PREFIX + hashlib.file_digest(file, "sha256").hexdigest()
