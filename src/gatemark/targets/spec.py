"""The ``targets:`` part of a pack: which kind of target it is, and its limits."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Final

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.evidence.settings_file import about
from gatemark.targets.call_window import AHEAD
from gatemark.targets.command import WAIT_HINT
from gatemark.targets.environment import check_names
from gatemark.targets.journal import Reuse
from gatemark.targets.load_function import split_reference
from gatemark.targets.network_specs import HttpSpec, OpenAISpec
from gatemark.targets.port import ANSWER_FIELDS
from gatemark.targets.run_options import DEFAULT_MAX_REPLY_BYTES, RunOptions
from gatemark.targets.spending import Budget, Prices

KINDS: Final = ("python", "command", "http", "openai", "recorded")
# Kinds that need a client library are imported when a pack names them.
_NETWORK: Final = ("http", "openai")
_NETWORK_RETRIES: Final = 3
_PROCESS_TIMEOUT_S: Final = 60.0
_STOP_AFTER: Final = 10


class TargetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target of a pack: exactly one kind, and its limits."""

    python: Annotated[str | None, about("Function, as `module:function`.")] = None
    command: Annotated[
        tuple[str, ...] | None,
        about("Program and arguments; it stays running and answers one JSON line per item."),
    ] = None
    http: Annotated[HttpSpec | None, about("HTTP service, with the keys below.")] = None
    openai: Annotated[
        OpenAISpec | None, about("OpenAI-compatible service, with the keys below.")
    ] = None
    recorded: Annotated[str | None, about("File of recorded samples that answer.")] = None
    send_sample: Annotated[
        bool, about("Send a command the whole item as JSON, without the expected answer.")
    ] = False
    fields: Annotated[
        tuple[str, ...], about("Fields of an item that a function or command sees besides input.")
    ] = ()
    env: Annotated[tuple[str, ...], about("Environment variables that the process receives.")] = ()
    files: Annotated[
        tuple[str, ...] | None,
        about("Patterns of files that the answers depend on; part of the identity."),
    ] = None
    version: Annotated[
        str | None, about("Name of the version that answers; part of the identity.")
    ] = None
    isolate: Annotated[bool, about("Keep a function from reading the data and the store.")] = False
    in_process: Annotated[
        bool, about("Run the function inside Gatemark, for debugging; such a run never passes.")
    ] = False
    timeout_s: Annotated[
        float | None, about("Seconds for one call. Default: 60; no limit for a Python function.")
    ] = None
    retries: Annotated[
        int | None,
        about("How often a failed call is repeated. Default: 3 for endpoints, otherwise 0."),
    ] = None
    rate_per_s: Annotated[float | None, about("Maximum number of calls per second.")] = None
    burst: Annotated[int, about("Calls that may start at once within the rate.")] = 1
    stop_after: Annotated[
        int | None,
        about("Stop after this many calls in a row that could not be asked. Default: 10."),
    ] = None
    max_reply_bytes: Annotated[int, about("Maximum size of a reply.")] = DEFAULT_MAX_REPLY_BYTES
    cost: Annotated[Prices | None, about("Prices, for targets that report no cost.")] = None
    budget: Annotated[Budget, about("The most that a run may spend.")] = Budget()

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
        if self.stop_after is not None and self.recorded is not None:
            raise InvalidValueError("recorded targets do not take stop_after")
        for name in ANSWER_FIELDS.intersection(self.fields):
            raise InvalidValueError(
                f"fields must not list {name!r}: a target never sees the expected answer"
            )
        check_names(self.env)

    @property
    def kind(self) -> str:
        """Which of the kinds this is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def is_unpinned_endpoint(self) -> bool:
        """Whether the model behind its address can change and no version is vouched for."""
        return self.kind in _NETWORK and self.version is None

    def options(self, *, concurrency: int = 1, reuse: Reuse = "resume") -> RunOptions:
        """Return the runner's options; raise for impossible limits."""
        timeout_s, retries = self.timeout_s, self.retries
        if timeout_s is None and self.kind in ("command", "http", "openai"):
            timeout_s = _PROCESS_TIMEOUT_S
        if retries is None:
            retries = _NETWORK_RETRIES if self.kind in _NETWORK else 0
        options = RunOptions(
            concurrency=concurrency,
            is_remote=self.kind in _NETWORK,
            timeout_hint=f"; {WAIT_HINT}" if self.kind == "command" else "",
            stop_after=None if self.recorded is not None else self.stop_after or _STOP_AFTER,
            timeout_s=timeout_s,
            retries=retries,
            rate_per_s=self.rate_per_s,
            burst=self.burst,
            max_reply_bytes=self.max_reply_bytes,
            budget=self.budget,
            prices=self.cost,
            reuse=reuse,
        )
        if self.python is None or self.in_process:
            return options
        # A worker process measures the time itself, without its start-up time.
        is_unlimited = self.rate_per_s is None and retries == 0 and self.budget == Budget()
        return msgspec.structs.replace(options, timeout_s=None, ahead=AHEAD if is_unlimited else 1)


def parse_spec(raw: Any, place: str) -> TargetSpec:
    """Parse a target of a pack; every error names the place and the key."""
    try:
        return msgspec.convert(raw, TargetSpec)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{place}: {error}{_suggest_field(raw, str(error))}") from error
    except (InvalidValueError, UsageError) as error:
        raise BadInputError(f"{place}: {error}") from error


def _suggest_field(raw: Any, message: str) -> str:
    if "unknown field" not in message or not isinstance(raw, dict):
        return ""
    wrong = message.split("`")[1]
    close = difflib.get_close_matches(wrong, TargetSpec.__struct_fields__, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
