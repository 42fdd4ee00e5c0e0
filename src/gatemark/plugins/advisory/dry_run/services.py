"""Services as written on the command line (``LANE=TARGET``), and their targets."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

import msgspec

import gatemark
from gatemark.core.errors import InvalidValueError, UsageError
from gatemark.core.hosts import is_loopback
from gatemark.plugins.advisory.dry_run.envelope import ADVISE_PATH, DeviceChoice
from gatemark.plugins.advisory.record import Mode
from gatemark.targets.build import make_target
from gatemark.targets.environment import select_environment
from gatemark.targets.network_specs import HttpSpec
from gatemark.targets.port import Call, CallPart, Reply, Target
from gatemark.targets.script import ScriptTarget
from gatemark.targets.spec import TargetSpec

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
GREETING: Final = "listening on "


class HostedGateway:
    """A target that starts its own gateway on a free port and stops it when closed."""

    reads: frozenset[CallPart] = frozenset({"input"})

    def __init__(self, arguments: tuple[str, ...], connect: Callable[[str], Target]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-m", "gatemark", "advisory", "gateway", "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_make_environment(),
            # Ctrl-C belongs to the dry run, which stops the gateway itself.
            start_new_session=True,
        )
        try:
            self._target = connect(self._read_address())
        except BaseException:
            self._stop()
            raise

    async def call(self, call: Call) -> Reply:
        return await self._target.call(call)

    async def close(self) -> None:
        await self._target.close()
        self._stop()

    def identity(self) -> dict[str, object]:
        return self._target.identity()

    def _read_address(self) -> str:
        line = self._read_first_line()
        if line.startswith(GREETING):
            return line.removeprefix(GREETING).strip()
        self._process.terminate()
        _, said = self._process.communicate(timeout=STOP_SECONDS)
        words = said.decode(errors="replace").strip().removeprefix("gatemark: ")
        raise UsageError(f"the gateway did not start: {words or 'it said nothing'}")

    def _read_first_line(self) -> str:
        """Return the first line that the gateway prints; empty if it ends or takes too long."""
        if self._process.stdout is None:
            return ""
        descriptor = self._process.stdout.fileno()
        data = b""
        deadline = time.monotonic() + START_SECONDS
        while b"\n" not in data:
            ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(descriptor, 4096) if ready else b""
            if not chunk:
                return ""
            data += chunk
        return data.decode(errors="replace").splitlines()[0]

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def _make_environment() -> dict[str, str]:
    """Return an environment in which the child imports the same package as this process."""
    places = [str(Path(gatemark.__file__).resolve().parents[1])]
    if os.environ.get("PYTHONPATH"):
        places.append(os.environ["PYTHONPATH"])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


EVERY_LANE: Final = "all"
_SERVICE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
MAX_REPLY_BYTES: Final = 256 * 1024
HOSTED: Final = "gateway"
DEVICES: Final = get_args(DeviceChoice)
TARGET_FORMS: Final = (
    "http://127.0.0.1:PORT, gateway, python:MODULE:FUNCTION, command:PROGRAM …, "
    "script:PROGRAM … or recorded:DECISIONS.jsonl"
)

OpenTarget = Callable[[], Target]


class ServiceSpec(msgspec.Struct, frozen=True):
    """One service: how it was written, how records name its endpoint, and how to open it.

    ``recording`` is a file of earlier decisions instead of a live service. ``name`` is the user's
    own name of the service, if there is one.
    """

    spelled: str
    endpoint: str
    open: OpenTarget | None = None
    recording: str | None = None
    name: str | None = None

    @property
    def named(self) -> str:
        """How it was written, with its own name."""
        return self.spelled if self.name is None else f"{self.name}={self.spelled}"


def parse_services(
    texts: Sequence[str], lanes: Sequence[str], mode: Mode, *, jobs: int
) -> dict[str, ServiceSpec]:
    """Return the service of each lane; ``all`` serves the lanes without their own."""
    found: dict[str, str] = {}
    names = read_own_names(texts)
    for text in texts:
        place, equals, target = text.partition("=")
        lane = place.partition("/")[0]
        if not equals or not target:
            raise UsageError(f"service must look like LANE=TARGET, got {text!r}")
        if lane != EVERY_LANE and lane not in lanes:
            raise UsageError(f"no fixture belongs to lane {lane!r} (lanes: {', '.join(lanes)})")
        if lane in found:
            raise UsageError(f"lane {lane!r} has two services")
        found[lane] = target
    if not found:
        raise UsageError("give at least one --service LANE=TARGET")
    specs: dict[str, ServiceSpec] = {}
    chosen = {}
    for lane in lanes:
        target = found.get(lane) or found.get(EVERY_LANE, "")
        if target:
            if target not in specs:
                specs[target] = _parse_service(target, jobs)
            name = names.get(lane if lane in found else EVERY_LANE)
            chosen[lane] = msgspec.structs.replace(specs[target], name=name)
    for spec in specs.values():
        _refuse_wrong_mode(spec, mode)
    return chosen


def read_own_names(texts: Sequence[str]) -> dict[str, str]:
    """Return the names that users give their services: ``LANE/NAME=TARGET``."""
    found: dict[str, str] = {}
    for text in texts:
        lane, slash, name = text.partition("=")[0].partition("/")
        if not slash:
            continue
        if not _SERVICE_NAME.fullmatch(name):
            raise UsageError(
                f"a service name must have letters, digits, '_' and '-' only, at most 64, and "
                f"begin with a letter; got {name!r}"
            )
        found[lane] = name
    return found


def _refuse_wrong_mode(spec: ServiceSpec, mode: Mode) -> None:
    if (spec.recording is not None) != (mode == "offline_fixture"):
        raise UsageError(
            "--mode offline_fixture is for recorded services, and they need it; "
            f"got {spec.spelled!r} in mode {mode}"
        )


def _parse_service(target: str, jobs: int) -> ServiceSpec:
    form, _, rest = target.partition(":")
    folder = Path.cwd()
    if form in ("http", "https"):
        return _parse_http(target)
    if form == HOSTED and (rest or "AUTO") in DEVICES:
        return _host_gateway(target, rest or "AUTO")
    if form == "python" and rest:
        return _from_spec(target, _make_target_spec(python=rest), rest, folder, jobs)
    if form == "command" and rest:
        argv = _split_words(target, rest)
        return _from_spec(target, _make_target_spec(command=argv), Path(argv[0]).name, folder, jobs)
    if form == "script" and rest:
        argv = _split_words(target, rest)
        return ServiceSpec(
            spelled=target,
            endpoint=Path(argv[0]).name,
            open=lambda: ScriptTarget(
                argv,
                folder,
                clock=time.perf_counter,
                max_reply_bytes=MAX_REPLY_BYTES,
                environ=select_environment(os.environ, ()),
            ),
        )
    if form == "recorded" and rest:
        return ServiceSpec(spelled=target, endpoint="recorded", recording=rest)
    raise UsageError(f"service target must be {TARGET_FORMS}, got {target!r}")


def _parse_http(target: str) -> ServiceSpec:
    """Return an HTTP service on this machine; refuse others, which would send fixtures out."""
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise UsageError(f"service address {target!r} is not valid: {error}") from error
    if not is_loopback(parts.hostname or ""):
        raise UsageError(f"service must be on the loopback interface, got host {parts.hostname!r}")
    if parts.query or parts.fragment:
        raise UsageError("service address must not have a query: records would repeat it")
    address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or ADVISE_PATH}"
    spec = _make_target_spec(http=HttpSpec(url=address, response="", body="{{input}}"))
    return _from_spec(target, spec, f"{parts.netloc}{urlsplit(address).path}", Path.cwd(), 1)


def _host_gateway(target: str, device: str) -> ServiceSpec:
    """Return the reference gateway, started for this run."""

    def connect(address: str) -> Target:
        opened = _parse_http(address).open
        if opened is None:
            raise UsageError(f"service {address!r} cannot be opened")
        return opened()

    return ServiceSpec(
        spelled=target,
        endpoint=f"{HOSTED}{ADVISE_PATH}",
        open=lambda: HostedGateway(("--device", device), connect),
    )


def _split_words(target: str, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"service {target!r} cannot be split into words: {error}") from error
    if not words:
        raise UsageError(f"service {target!r} names no program")
    return words


def _make_target_spec(**kind: object) -> TargetSpec:
    try:
        return TargetSpec(**kind, max_reply_bytes=MAX_REPLY_BYTES, timeout_s=1.0)  # type: ignore[arg-type]
    except InvalidValueError as error:
        raise UsageError(str(error)) from error


def _from_spec(
    spelled: str, spec: TargetSpec, endpoint: str, folder: Path, jobs: int
) -> ServiceSpec:
    def open_target() -> Target:
        return make_target(
            spec, folder, clock=time.perf_counter, environ=os.environ, concurrency=jobs
        )

    return ServiceSpec(spelled=spelled, endpoint=endpoint, open=open_target)
