"""Build the target that a pack declares."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gatemark.core.errors import UsageError
from gatemark.targets.command import CommandTarget
from gatemark.targets.environment import select_environment
from gatemark.targets.file_digests import digest_declared_files
from gatemark.targets.port import Clock, Target
from gatemark.targets.prompt_files import read_prompt_files
from gatemark.targets.python_callable import PythonTarget
from gatemark.targets.python_worker import PythonWorkerTarget
from gatemark.targets.recorded import RecordedTarget, Recording
from gatemark.targets.spec import TargetSpec

# Reads a file of recorded samples; returns the replies and the digest of the file.
OpenRecording = Callable[[Path], tuple[Recording, str]]


def make_target(
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
    digest_declared_files(spec.files or (), folder)
    if spec.python is not None and spec.in_process:
        inline = concurrency == 1 and spec.timeout_s is None
        return PythonTarget(spec.python, folder, clock=clock, inline=inline, fields=spec.fields)
    if spec.python is not None:
        return PythonWorkerTarget(
            spec.python,
            folder,
            environ=select_environment(environ, spec.env),
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
            environ=select_environment(environ, spec.env),
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
        read_prompt_files(getattr(spec, spec.kind), folder),
        clock=clock,
        environ=environ,
        max_reply_bytes=spec.max_reply_bytes,
    )
