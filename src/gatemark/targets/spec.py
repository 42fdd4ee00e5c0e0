"""The ``targets:`` part of a pack: which kind, with which limits, and how to build it."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.core.extras import not_installed
from gatemark.targets.command import CommandTarget
from gatemark.targets.environment import check_names, target_environment
from gatemark.targets.journal import Reuse
from gatemark.targets.limits import DEFAULT_MAX_REPLY_BYTES, Budget, Prices, RunOptions
from gatemark.targets.network_specs import HttpSpec, OpenAISpec
from gatemark.targets.port import ANSWER_FIELDS, Target
from gatemark.targets.python_callable import PythonTarget, split_reference
from gatemark.targets.python_worker import AHEAD, PythonWorkerTarget
from gatemark.targets.recorded import RecordedTarget, Recording

KINDS: Final = ("python", "command", "http", "openai", "recorded")
# Kinds with a client library behind them are loaded when a pack names them.
_NETWORK: Final = {"http": "HttpTarget", "openai": "OpenAITarget"}
_NETWORK_RETRIES: Final = 3
_PROCESS_TIMEOUT_S: Final = 60.0
_STOP_AFTER: Final = 10

Clock = Callable[[], float]
# Reads a file of recorded samples; gives the replies and the digest of the file.
OpenRecording = Callable[[Path], tuple[Recording, str]]


class TargetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one kind, and how to treat it.

    Without ``timeout_s`` a command or an endpoint gets 60 s and a Python function all the time
    it wants; without ``retries`` an endpoint is asked up to three times more, others are not. After
    ``stop_after`` calls in a row that could not be asked (default: 10) an endpoint gets no more.
    ``cost`` prices targets that tell no cost themselves. ``fields`` names what a function or a
    command sees of an item besides its input, ``env`` the variables that its process receives.
    ``files`` are patterns of files in the pack's folder that its answers depend on, and ``version``
    is a name that people give it: both belong to its identity. ``isolate`` keeps a function from
    reading the data and the store; ``in_process`` runs it inside Gatemark for debugging, and such a
    run never passes.
    """

    python: str | None = None
    command: tuple[str, ...] | None = None
    http: HttpSpec | None = None
    openai: OpenAISpec | None = None
    recorded: str | None = None
    send_sample: bool = False
    fields: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    files: tuple[str, ...] | None = None
    version: str | None = None
    isolate: bool = False
    in_process: bool = False
    timeout_s: float | None = None
    retries: int | None = None
    rate_per_s: float | None = None
    burst: int = 1
    stop_after: int | None = None
    max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES
    cost: Prices | None = None
    budget: Budget = Budget()

    def __post_init__(self) -> None:
        named = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(named) != 1:
            got = " and ".join(named) or "none"
            raise InvalidValueError(f"a target needs exactly one of {', '.join(KINDS)}; got {got}")
        if self.send_sample and self.command is None:
            raise InvalidValueError("send_sample belongs to command targets only")
        self._check_process_options()
        if self.python is not None:
            split_reference(self.python)
        if self.command is not None and not (self.command and self.command[0]):
            raise InvalidValueError("command must name a program, got an empty list")
        self.options()

    def _check_process_options(self) -> None:
        """Refuse options that the kind of target would ignore."""
        runs_code = self.python is not None or self.command is not None
        for name in ("fields", "env"):
            if getattr(self, name) and not runs_code:
                raise InvalidValueError(f"{name} belongs to python and command targets only")
        if self.files is not None and not runs_code:
            raise InvalidValueError("files belongs to python and command targets only")
        if self.version is not None and not self.version.strip():
            raise InvalidValueError("version must not be empty")
        for name in ("isolate", "in_process"):
            if getattr(self, name) and self.python is None:
                raise InvalidValueError(f"{name} belongs to python targets only")
        if self.in_process and (self.isolate or self.env):
            raise InvalidValueError(
                "in_process runs the function inside Gatemark, where isolate and env have no effect"
            )
        if self.stop_after is not None and self.kind not in _NETWORK:
            raise InvalidValueError("stop_after belongs to http and openai targets only")
        for name in ANSWER_FIELDS.intersection(self.fields):
            raise InvalidValueError(
                f"fields must not list {name!r}: a target never sees the expected answer"
            )
        check_names(self.env)

    @property
    def kind(self) -> str:
        """Which of the kinds this is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    def options(
        self, *, concurrency: int = 1, reuse: Reuse = "resume", retry_errors: bool = False
    ) -> RunOptions:
        """The runner's options; raises when a limit makes no sense."""
        timeout_s, retries = self.timeout_s, self.retries
        if timeout_s is None and self.kind in ("command", "http", "openai"):
            timeout_s = _PROCESS_TIMEOUT_S
        if retries is None:
            retries = _NETWORK_RETRIES if self.kind in _NETWORK else 0
        options = RunOptions(
            concurrency=concurrency,
            is_remote=self.kind in _NETWORK,
            stop_after=_STOP_AFTER if self.stop_after is None else self.stop_after,
            timeout_s=timeout_s,
            retries=retries,
            rate_per_s=self.rate_per_s,
            burst=self.burst,
            max_reply_bytes=self.max_reply_bytes,
            budget=self.budget,
            prices=self.cost,
            reuse=reuse,
            retry_errors=retry_errors,
        )
        if self.python is None or self.in_process:
            return options
        # A worker process keeps the time itself, without what a new process needs to start.
        is_unlimited = self.rate_per_s is None and retries == 0 and self.budget == Budget()
        return msgspec.structs.replace(options, timeout_s=None, ahead=AHEAD if is_unlimited else 1)


def parse_spec(raw: Any, place: str) -> TargetSpec:
    """A target as written in a pack; every complaint names the place and the key."""
    try:
        return msgspec.convert(raw, TargetSpec)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{place}: {error}{_hint(raw, str(error))}") from error
    except (InvalidValueError, UsageError) as error:
        raise BadInputError(f"{place}: {error}") from error


def build(
    spec: TargetSpec,
    folder: Path,
    *,
    clock: Clock,
    environ: Mapping[str, str],
    concurrency: int = 1,
    open_recording: OpenRecording | None = None,
    hidden: Sequence[Path] = (),
) -> Target:
    """Return the target itself; ``folder`` is the pack's: paths and modules are looked up there.

    ``hidden`` are the paths that an isolated target must not read.
    """
    if spec.python is not None and spec.in_process:
        inline = concurrency == 1 and spec.timeout_s is None
        return PythonTarget(spec.python, folder, clock=clock, inline=inline, fields=spec.fields)
    if spec.python is not None:
        return PythonWorkerTarget(
            spec.python,
            folder,
            environ=target_environment(environ, spec.env),
            concurrency=concurrency,
            max_reply_bytes=spec.max_reply_bytes,
            timeout_s=spec.timeout_s,
            fields=spec.fields,
            hidden=hidden if spec.isolate else None,
        )
    if spec.command is not None:
        return CommandTarget(
            spec.command,
            folder,
            clock=clock,
            max_reply_bytes=spec.max_reply_bytes,
            environ=target_environment(environ, spec.env),
            send_sample=spec.send_sample,
            fields=spec.fields,
        )
    if spec.recorded is not None:
        if open_recording is None:
            raise UsageError("a recorded target needs a way to read samples, and none was given")
        recording, digest = open_recording(folder / spec.recorded)
        return RecordedTarget(recording, digest=digest)
    make: Callable[..., Target] = getattr(_network_module(spec.kind), _NETWORK[spec.kind])
    return make(
        getattr(spec, spec.kind),
        clock=clock,
        environ=environ,
        max_reply_bytes=spec.max_reply_bytes,
    )


def _network_module(kind: str) -> Any:
    try:
        return importlib.import_module(f"gatemark.targets.{kind}")
    except ModuleNotFoundError as error:
        raise UsageError(not_installed(f"{kind} targets need", str(error.name), "http")) from error


def _hint(raw: Any, message: str) -> str:
    if "unknown field" not in message or not isinstance(raw, dict):
        return ""
    wrong = message.split("`")[1]
    close = difflib.get_close_matches(wrong, TargetSpec.__struct_fields__, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
