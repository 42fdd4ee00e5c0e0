"""Pack runs inside a server: started by people, with progress, resumable.

The progress of a run is in the memory of its server and numbered, so that a reader can continue
after a lost connection. The state of a run is also in the store: after a restart it is
``interrupted``, and resuming it continues from its journals.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.errors import (
    ConflictError,
    GatemarkError,
    NotAllowedError,
    RefusedError,
    UnknownNameError,
)
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_pack import run_pack
from gatemark.release.lifecycle.roles import EVALUATING
from gatemark.server.accounts.identity import Identity
from gatemark.server.accounts.nouns import PageRun, make_id
from gatemark.server.accounts.open_stores import page_runs_of
from gatemark.targets.outcomes import RunProgress
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)
MAX_WAITING: Final = 20
MAX_STEPS: Final = 5_000
MAX_KEPT: Final = 100
ALIVE_EVERY_S: Final = 10.0
SILENT: Final = timedelta(seconds=60)
_STEP_EVERY_S: Final = 0.1
GOING: Final = ("queued", "running")


class RunStep(msgspec.Struct, frozen=True):
    """One progress step of a run; ``number`` counts from 1."""

    number: int
    kind: str
    data: dict[str, object]


class _ProgressLog:
    """The progress of one run; writers append, readers read from a number on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[RunStep] = []
        self._at: dict[str, float] = {}

    def add(self, kind: str, data: dict[str, object]) -> None:
        with self._lock:
            if len(self._steps) < MAX_STEPS or kind == "state":
                self._steps.append(RunStep(len(self._steps) + 1, kind, data))

    def progress(self, name: str, progress: RunProgress) -> None:
        """Record progress, rate-limited; the end is always recorded."""
        now = time.monotonic()
        is_end = progress.done >= progress.total
        if not is_end and now - self._at.get(name, 0.0) < _STEP_EVERY_S:
            return
        self._at[name] = now
        self.add("progress", {"name": name, **msgspec.to_builtins(progress)})

    def after(self, number: int) -> tuple[RunStep, ...]:
        with self._lock:
            return tuple(self._steps[max(0, number) :])


class RunBoard:
    """The runs of one server."""

    def __init__(
        self,
        open_workspace: Callable[[str | None], Workspace],
        packs: Sequence[str],
        *,
        secret_files: Sequence[Path] = (),
    ) -> None:
        self._open_workspace = open_workspace
        self.secret_files = tuple(secret_files)
        self._folders = [Path(folder).resolve() for folder in packs]
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gatemark-run")
        self._logs: dict[str, _ProgressLog] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def packs(self) -> tuple[str, ...]:
        """Return the packs that may be started: YAML files directly in the server's folders."""
        found = {
            path.relative_to(folder).as_posix()
            for folder in self._folders
            for path in sorted(folder.glob("*.yaml"))
            if path.is_file() and _is_pack(path)
        }
        return tuple(sorted(found))

    def path_of(self, pack: str) -> str:
        """Return the path of a pack."""
        if pack not in self.packs():
            raise UnknownNameError(f"there is no pack {pack!r}")
        return str(next(folder / pack for folder in self._folders if (folder / pack).is_file()))

    def start(
        self, workspace: Workspace, identity: Identity, pack: str, limit: int | None = None
    ) -> PageRun:
        """Run a pack; for evaluators, authors and pack owners."""
        self.path_of(pack)
        self._require(identity)
        now = workspace.clock()
        run = PageRun(
            id=make_id(),
            pack=pack,
            person=identity.person,
            state="queued",
            limit=limit,
            result_id=None,
            detail="",
            started_at=now,
            alive_at=now,
            finished_at=None,
        )
        with self._lock:
            going = [one for one in page_runs_of(workspace).latest(MAX_KEPT) if one.state in GOING]
            if len(going) >= MAX_WAITING:
                raise RefusedError(f"{len(going)} runs are waiting already")
            page_runs_of(workspace).add(run)
            while len(self._logs) > MAX_KEPT:
                self._logs.pop(next(iter(self._logs)))
        self._submit(run, resume=False)
        return run

    def resume(self, workspace: Workspace, identity: Identity, identity_of_run: str) -> PageRun:
        """Resume an interrupted run; no call is made twice."""
        self._require(identity)
        run = self.get(workspace, identity_of_run)
        if run.state != "interrupted":
            raise ConflictError(f"run {run.id} is {run.state}, not interrupted")
        self.path_of(run.pack)
        page_runs_of(workspace).change(run.id, "queued", workspace.clock())
        self._submit(run, resume=True)
        return self.get(workspace, run.id)

    def get(self, workspace: Workspace, identity: str) -> PageRun:
        """Return one run from the store."""
        run = page_runs_of(workspace).get(identity)
        if run is None:
            raise UnknownNameError(f"there is no run {identity}")
        return run

    def latest(self, workspace: Workspace, limit: int = 50) -> tuple[PageRun, ...]:
        """Return the newest runs, newest first."""
        return page_runs_of(workspace).latest(limit)

    def steps(self, identity: str, after: int) -> tuple[RunStep, ...]:
        """Return the progress of a run after a number; empty if another server runs it."""
        log = self._logs.get(identity)
        return () if log is None else log.after(after)

    def settle(self, workspace: Workspace) -> int:
        """Mark the runs of dead servers as interrupted; called at start and regularly."""
        now = workspace.clock()
        return page_runs_of(workspace).interrupt(now - SILENT, now)

    def stop(self) -> None:
        """Start nothing more; the next server marks running packs as interrupted."""
        self._stopping.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _require(self, identity: Identity) -> None:
        if not EVALUATING & set(identity.roles):
            raise NotAllowedError(
                f"{identity.person} must be evaluator, author or pack_owner to run packs"
            )

    def _submit(self, run: PageRun, *, resume: bool) -> None:
        log = self._logs[run.id] = _ProgressLog()
        log.add("state", {"state": "queued"})
        self._pool.submit(self._work, run, log, resume)

    def _work(self, run: PageRun, log: _ProgressLog, resume: bool) -> None:
        workspace = self._open_workspace(run.person)
        workspace.secret_files = self.secret_files
        page_runs_of(workspace).change(run.id, "running", workspace.clock())
        log.add("state", {"state": "running"})
        done = threading.Event()
        pulse = threading.Thread(target=self._refresh_lease, args=(run.id, done), daemon=True)
        pulse.start()
        detail, result_id, verdict = "", None, None
        try:
            choices = RunChoices(resume=resume, limit=run.limit)
            result = run_pack(
                workspace,
                self.path_of(run.pack),
                choices,
                on_progress=log.progress,
                on_notice=lambda text: log.add("notice", {"text": text}),
            )
            result_id, verdict = result.id, result.verdict
        except GatemarkError as error:
            detail = "\n".join(error.lines())
        except (Exception, SystemExit):
            # Nobody waits for the result of a run, so nobody else would see it.
            logger.exception("run broke", extra={"run": run.id, "pack": run.pack})
        finally:
            done.set()
            pulse.join()
            state = "failed" if result_id is None else "done"
            if result_id is None and not detail:
                detail = "the run ended with an internal error; see the server's log"
            page_runs_of(workspace).change(
                run.id,
                state,  # type: ignore[arg-type]
                workspace.clock(),
                result_id=result_id,
                detail=detail,
            )
            log.add(
                "state",
                {"state": state, "result_id": result_id, "verdict": verdict, "detail": detail},
            )
            workspace.store.close()

    def _refresh_lease(self, identity: str, done: threading.Event) -> None:
        """Refresh the lease of a run while this server runs it."""
        workspace = self._open_workspace(None)
        while not done.wait(ALIVE_EVERY_S) and not self._stopping.is_set():
            page_runs_of(workspace).change(identity, "running", workspace.clock())
        workspace.store.close()


def _is_pack(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return b"gatemark:" in stream.read(4096)
    except OSError:
        return False
