"""Read request bodies as files, and store measurements, with the checks of the commands."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from gatemark.accounts.identity import Identity
from gatemark.core.errors import BadInputError, NotAllowedError, UsageError
from gatemark.drift.close import CloseRequest, close_episode
from gatemark.drift.point import Pushed
from gatemark.drift.push import push_points
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.lifecycle.act import CommandResult, run_due
from gatemark.lifecycle.canary import push_windows
from gatemark.lifecycle.model.nouns import PRODUCTION, Role, VersionRef
from gatemark.lifecycle.shadow import pairs_of, push_pairs
from gatemark.workspace import Workspace

MEASURING: Final[frozenset[Role]] = frozenset({"evaluator", "operator"})
SETTLING: Final[frozenset[Role]] = frozenset({"operator", "approver"})
PLACE: Final = "body"


@contextmanager
def write_temporary_files(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield temporary file paths by name; errors mention the name instead of the path."""
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        paths = {}
        for number, (name, text) in enumerate(texts.items()):
            path = Path(folder) / f"{number}.jsonl"
            path.write_text(text, encoding="utf-8")
            paths[name] = str(path)
        try:
            yield paths
        except BadInputError as error:
            problems = tuple(_rename_paths(problem, paths) for problem in error.problems)
            raise BadInputError(problems, unlisted_count=error.unlisted_count) from error
        except UsageError as error:
            raise type(error)(_rename_paths(str(error), paths)) from error


def _rename_paths(problem: str, paths: Mapping[str, str]) -> str:
    for name, path in paths.items():
        problem = problem.replace(path, name)
    return problem


@contextmanager
def _file_of(records: Sequence[object]) -> Iterator[str]:
    """Write records to a temporary file, so that errors name the line as for a command."""
    try:
        text = "".join(json.dumps(one, allow_nan=False) + "\n" for one in records)
    except ValueError as error:
        raise BadInputError(f"{PLACE}: {error}") from error
    with write_temporary_files({PLACE: text}) as paths:
        yield paths[PLACE]


def _require(identity: Identity, allowed: frozenset[Role], what: str) -> None:
    if not allowed & set(identity.roles):
        raise NotAllowedError(f"{identity.person} must be {' or '.join(sorted(allowed))} to {what}")


def hand_in_windows(
    workspace: Workspace,
    identity: Identity,
    asset: str,
    records: Sequence[object],
    environment: str = PRODUCTION,
) -> tuple[CommandResult, ...]:
    """Store canary windows (``gatemark.canary/1``): all of them, or none if one is invalid."""
    with _file_of(records) as path:
        return push_windows(workspace, asset, path, actor=identity.person, environment=environment)


def hand_in_pairs(
    workspace: Workspace,
    identity: Identity,
    ref: VersionRef,
    records: Sequence[Mapping[str, object]],
    environment: str = PRODUCTION,
) -> tuple[CommandResult, ...]:
    """Store measurements of a shadow and the live version: all, or none if one is invalid."""
    try:
        spans = [pairs_of(record) for record in records]
    except msgspec.ValidationError as error:
        raise BadInputError(f"spans: {error}") from error
    return push_pairs(workspace, ref, spans, actor=identity.person, environment=environment)


def hand_in_points(workspace: Workspace, identity: Identity, records: Sequence[object]) -> Pushed:
    """Store points (``gatemark.point/1``): all of them, or none if one is invalid."""
    _require(identity, MEASURING, "push points")
    with _file_of(records) as path:
        by_name = workspace.acting_as(identity.person)
        return push_points(by_name, [path], ReadingChoices(), now=workspace.clock())


def run_due_now(
    workspace: Workspace, identity: Identity, asset: str, environment: str = PRODUCTION
) -> tuple[CommandResult, ...]:
    """Do what is due for an asset: judge windows, ramp, pause, roll back."""
    _require(identity, MEASURING, "run what is due")
    return run_due(workspace, asset, environment)


def settle_episode(
    workspace: Workspace, identity: Identity, episode: str, reason: str, cite: str | None
) -> str:
    """Close a drift episode and return its id; the version keeps its stage."""
    _require(identity, SETTLING, "close an episode")
    request = CloseRequest(episode=episode, actor=identity.person, reason=reason, cite=cite)
    return close_episode(workspace, request, workspace.clock()).id
