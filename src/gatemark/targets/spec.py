"""The ``targets:`` part of a pack: the kind, its limits, how to build it, and its identity.

What is examined must not see the judge's credentials or where results are stored. So a process
starts only with the variables that programs need to run at all (paths, locale, certificates,
proxies without a password) and those that the pack names under ``env``.

A digest over a target's pins, the files it declares and the version that people give it identifies
what was judged. A target whose replies can change while its identity stays the same is not pinned:
its answers must not be reused in another run.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.evidence.settings_file import about
from gatemark.targets.command import WAIT_HINT, CommandTarget
from gatemark.targets.journal import RecordedTarget, Recording, Reuse
from gatemark.targets.network_specs import OWN_PREFIX, HttpSpec, OpenAISpec
from gatemark.targets.port import ANSWER_FIELDS, Reply, Target
from gatemark.targets.prompt_files import with_prompt_files
from gatemark.targets.python_callable import PythonTarget, declared_digests, split_reference
from gatemark.targets.python_worker import AHEAD, PythonWorkerTarget

KINDS: Final = ("python", "command", "http", "openai", "recorded")
# Kinds that need a client library are imported when a pack names them.
_NETWORK: Final = ("http", "openai")
_NETWORK_RETRIES: Final = 3
_PROCESS_TIMEOUT_S: Final = 60.0
_STOP_AFTER: Final = 10

Clock = Callable[[], float]
PASSED: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE"),
        *("TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "NO_COLOR"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    }
)
PASSED_PREFIXES: Final = ("LC_", "PYTHON", "XDG_")
PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def check_names(names: Iterable[str]) -> None:
    """Refuse names that no target may receive."""
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise InvalidValueError(f"env must list names of variables, got {name!r}")
        if name.upper().startswith(OWN_PREFIX):
            raise InvalidValueError(
                f"env must not list {name!r}: a target never receives Gatemark's own settings"
            )


def target_environment(environ: Mapping[str, str], named: Iterable[str]) -> dict[str, str]:
    """Return the variables for a target's process; ``named`` are those the pack lists."""
    wanted = set(named)
    return {
        name: value
        for name, value in environ.items()
        if not name.upper().startswith(OWN_PREFIX) and (name in wanted or _is_passed(name, value))
    }


def _is_passed(name: str, value: str) -> bool:
    if name.lower() in PROXIES:
        # A proxy with a password in its address is a credential.
        return "@" not in value
    return name in PASSED or name.startswith(PASSED_PREFIXES)


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The maximum spending of a run; None means no limit. ``calls`` counts retries too."""

    calls: Annotated[int | None, about("Maximum number of calls, with retries.")] = None
    cost: Annotated[float | None, about("Maximum amount of money.")] = None
    wall_s: Annotated[float | None, about("Maximum time in seconds.")] = None

    def __post_init__(self) -> None:
        for name in ("calls", "cost", "wall_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidValueError(f"budget.{name} must be >= 0, got {value}")


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a call, for targets that do not report it."""

    per_call: Annotated[float, about("Price of one call.")] = 0.0
    input_per_million: Annotated[float | None, about("Price of a million input tokens.")] = None
    output_per_million: Annotated[float | None, about("Price of a million output tokens.")] = None

    def __post_init__(self) -> None:
        for name in ("per_call", "input_per_million", "output_per_million"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidValueError(f"cost.{name} must be >= 0, got {value}")

    def cost_of(self, reply: Reply) -> float | None:
        """Return the reply's price, or None if it is priced by tokens and has no token counts."""
        cost = self.per_call
        for price, names in (
            (self.input_per_million, INPUT_TOKENS),
            (self.output_per_million, OUTPUT_TOKENS),
        ):
            if price is None:
                continue
            usage = [(reply.usage or {}).get(name) for name in names]
            counts = [count for count in usage if isinstance(count, int | float)]
            if not counts:
                return None
            cost += price * counts[0] / 1e6
        return cost


INPUT_TOKENS: Final = ("prompt_tokens", "input_tokens")
OUTPUT_TOKENS: Final = ("completion_tokens", "output_tokens")
DEFAULT_MAX_REPLY_BYTES = 4 * 1024 * 1024


class RunOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the runner needs besides the calls.

    ``retries`` counts attempts after the first. A Retry-After beyond ``retry_after_max_s`` is not
    waited for. ``retry_errors`` makes a resumed run repeat calls with an error in the journal.
    ``is_remote`` means that calls go to a service: a call that times out counts as not made, and
    the first call goes alone. After ``stop_after`` failed calls of this kind in a row the run ends;
    None is for recordings. ``ahead`` is how many calls per slot are passed to a target with its own
    queue.
    """

    concurrency: int = 1
    ahead: int = 1
    is_remote: bool = False
    stop_after: int | None = 10
    timeout_s: float | None = None
    retries: int = 0
    backoff_base_s: float = 0.5
    backoff_max_s: float = 30.0
    retry_after_max_s: float = 120.0
    rate_per_s: float | None = None
    burst: int = 1
    timeout_hint: str = ""
    """Added to the message about a call that took too long."""
    max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES
    budget: Budget = Budget()
    prices: Prices | None = None
    reuse: Reuse = "resume"
    retry_errors: bool = False

    def __post_init__(self) -> None:
        at_least = {
            "concurrency": 1,
            "ahead": 1,
            "retries": 0,
            "backoff_base_s": 0,
            "backoff_max_s": 0,
            "retry_after_max_s": 0,
            "burst": 1,
            "max_reply_bytes": 1,
        }
        for name, low in at_least.items():
            if not getattr(self, name) >= low:
                raise InvalidValueError(f"{name} must be >= {low}, got {getattr(self, name)}")
        for name in ("timeout_s", "rate_per_s", "stop_after"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidValueError(f"{name} must be > 0, got {value}")


# Reads a file of recorded samples; returns the replies and the digest of the file.
OpenRecording = Callable[[Path], tuple[Recording, str]]


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

    def options(
        self, *, concurrency: int = 1, reuse: Reuse = "resume", retry_errors: bool = False
    ) -> RunOptions:
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
            retry_errors=retry_errors,
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
    """Build the target; ``folder`` is the pack's, where paths and modules are looked up.

    ``hidden`` are the paths that an isolated target must not read.
    """
    # Missing declared files are refused before any process starts.
    declared_digests(spec.files or (), folder)
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
    # Imported here: an HTTP client takes longer to load than most other targets to answer.
    make: Callable[..., Target] = importlib.import_module("gatemark.targets.http").HttpTarget
    return make(
        with_prompt_files(getattr(spec, spec.kind), folder),
        clock=clock,
        environ=environ,
        max_reply_bytes=spec.max_reply_bytes,
    )


def _hint(raw: Any, message: str) -> str:
    if "unknown field" not in message or not isinstance(raw, dict):
        return ""
    wrong = message.split("`")[1]
    close = difflib.get_close_matches(wrong, TargetSpec.__struct_fields__, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def target_identity(spec: TargetSpec, target: Target, folder: Path) -> dict[str, object]:
    """Return everything that identifies a target, as digest material; never a secret."""
    identity: dict[str, object] = dict(target.identity())
    if spec.files:
        identity["declared_files"] = declared_digests(spec.files, folder)
    if spec.version is not None:
        identity["version"] = spec.version
    return identity


def changed_files(
    spec: TargetSpec, target: Target, folder: Path, identity: Mapping[str, object]
) -> tuple[str, ...]:
    """Return the files of a target's identity that changed since it was opened."""
    readers: dict[str, Callable[[], dict[str, str]]] = {}
    if isinstance(target, PythonWorkerTarget):
        readers["sources"] = target.current_sources
    elif isinstance(target, CommandTarget):
        readers["files"] = target.current_files
    if spec.files:
        readers["declared_files"] = partial(declared_digests, spec.files, folder)
    found: set[str] = set()
    for key, read in readers.items():
        before = msgspec.convert(identity[key], dict[str, str])
        try:
            now = read()
        except (UsageError, BadInputError, OSError):
            now = {}  # gone, or not readable any more
        found.update(name for name in {**before, **now} if before.get(name) != now.get(name))
    return tuple(sorted(found))


def refuse_unpinned(spec: TargetSpec, place: str) -> None:
    """Refuse to reuse answers of a target that may have changed undetected."""
    if spec.version is not None or spec.recorded is not None:
        return
    if spec.http is not None or spec.openai is not None:
        raise UsageError(
            f"--cache: {place} is not pinned: what answers behind its address can change; add "
            "version: beside it, and raise it when the endpoint changes"
        )
    if spec.files is None:
        raise UsageError(
            f"--cache: {place} is not pinned: it may read files that its identity does not cover; "
            "list them, as in files: [prompts/*.txt], or say files: [] when it reads none"
        )
