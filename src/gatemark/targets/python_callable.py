"""A Python function, named as ``module:function``, called in the process that loads it.

A worker process uses this class (``worker_loop``); the judge does so only with ``in_process``.

The function returns the output, or a mapping with ``output`` and optionally ``confidence``,
``cost``, ``model`` and ``usage``.

Plain functions run in daemon threads, because a hanging function can be abandoned but not stopped;
with one call at a time and no time limit they run in place, which costs nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Final

from gatemark.targets.file_digests import digest_sources
from gatemark.targets.foreign_code import ForeignCode
from gatemark.targets.function_thread import FunctionThread, TimedValue
from gatemark.targets.load_function import (
    comes_from,
    find_function,
    list_extra_parameters,
    list_loaded_names,
    list_parts_read,
    load_module,
    split_reference,
)
from gatemark.targets.port import Call, Clock, Reply, TargetError, select_fields
from gatemark.targets.replies import BadReplyError, read_reply

MAX_ABANDONED_THREADS: Final = 32


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
        self._idle: list[FunctionThread] = []
        self._abandoned: list[FunctionThread] = []
        module_name, function_name = split_reference(reference)
        self._known_before = list_loaded_names()
        sys.path.insert(0, str(self._folder))
        with ExitStack() as undo:
            undo.callback(self._forget_folder)
            module = load_module(module_name, self._folder)
            self._function = find_function(module, function_name, reference)
            self.extras = list_extra_parameters(self._function, reference, has_fields=bool(fields))
            self._sources = _digest_sources(module, self._folder)
            undo.pop_all()
        self._is_async = inspect.iscoroutinefunction(self._function) or (
            inspect.iscoroutinefunction(type(self._function).__call__)
        )
        self.is_inline = inline and not self._is_async
        self.reads = list_parts_read(self.extras)

    async def call(self, call: Call) -> Reply:
        extras = {name: getattr(call, name) for name in self.extras}
        if "sample" in extras:
            extras["sample"] = select_fields(call.sample, self._fields)
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
            value, elapsed_s = await self._call_in_thread(call.input, extras)
        return _read_returned(value, elapsed_s * 1000.0, self._reference)

    async def close(self) -> None:
        for thread in (*self._idle, *self._abandoned):
            thread.finish()
        self._idle.clear()
        self._forget_folder()

    def identity(self) -> dict[str, object]:
        return {"kind": "python", "function": self._reference, "sources": self._sources}

    async def _call_in_thread(self, value: object, extras: dict[str, object]) -> TimedValue:
        thread = self._idle.pop() if self._idle else self._start_thread()
        finished = False
        try:
            result = await thread.ask(lambda: self._call_timed(value, extras))
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

    def _call_timed(self, value: object, extras: dict[str, object]) -> TimedValue:
        started = self._clock()
        with ForeignCode(self._reference, (TargetError,)):
            result = self._function(value, **extras)
        return (result, self._clock() - started)

    def _start_thread(self) -> FunctionThread:
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if len(self._abandoned) >= MAX_ABANDONED_THREADS:
            raise TargetError(
                "crash",
                f"{self._reference} has {len(self._abandoned)} calls that never ended; "
                "no more are started",
            )
        thread = FunctionThread()
        thread.start()
        return thread

    def _forget_folder(self) -> None:
        """Undo the import, so that another folder may have a module of the same name."""
        if str(self._folder) in sys.path:
            sys.path.remove(str(self._folder))
        for name in list_loaded_names() - self._known_before:
            if comes_from(sys.modules.get(name), self._folder):
                for loaded in [key for key in sys.modules if f"{key}.".startswith(f"{name}.")]:
                    del sys.modules[loaded]


def _digest_sources(module: ModuleType, folder: Path) -> dict[str, str]:
    file = getattr(module, "__file__", None)
    return digest_sources(Path(file), folder) if file else {}


def _read_returned(value: object, latency_ms: float, reference: str) -> Reply:
    if isinstance(value, Reply):
        return value
    if isinstance(value, Mapping):
        return read_reply(value, latency_ms)
    if value is None:
        raise BadReplyError(f"{reference} returned None; an empty answer is {{'output': None}}")
    if inspect.iscoroutine(value):
        value.close()
        raise BadReplyError(f"{reference} returned a coroutine; declare it with async def")
    return Reply(output=value, latency_ms=latency_ms)
