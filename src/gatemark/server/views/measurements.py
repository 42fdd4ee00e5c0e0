"""Measurements of serving systems: canary windows, shadows, points, service reports."""

from __future__ import annotations

from typing import Final

import msgspec
from fastapi import Path

from gatemark.core.errors import BadInputError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.release.drift.close import CloseRequest, close_episode
from gatemark.release.drift.point import Pushed
from gatemark.release.drift.push import PushPoints, push_points
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.canary import PushWindows, RunDue, do_due, push_windows
from gatemark.release.lifecycle.commands import ReportService
from gatemark.release.lifecycle.model.nouns import VersionRef
from gatemark.release.lifecycle.shadow import PushPairs, pairs_of, push_pairs
from gatemark.server.asset_tag import asset_etag
from gatemark.server.doors import Doors, Tagged, Visit
from gatemark.server.parameters import ASSET, VERSION
from gatemark.server.sent_files import write_records
from gatemark.server.views.moves import MoveDone, move_done

EPISODE: Final = Path(pattern=r"^(sha256:)?[0-9a-f]{8,64}$")
doors = Doors("measurements", {"asset": ASSET, "version": VERSION, "episode": EPISODE})


class Closed(msgspec.Struct, frozen=True):
    """The id of the closed episode."""

    episode: str


@doors.act("/assets/{asset}/canary/windows", MoveDone, command=PushWindows, is_repeatable=True)
def post_windows(visit: Visit, command: PushWindows) -> Tagged:
    """Push measurements of a running canary; repeating it changes nothing."""
    asset_etag(visit.workspace, command.asset)
    person, environment = visit.identity.person, command.environment
    with write_records(command.windows) as path:
        done = push_windows(
            visit.workspace, command.asset, path, actor=person, environment=environment
        )
    return move_done(visit.workspace, command.asset, *done)


@doors.act(
    "/assets/{asset}/versions/{version}/shadow", MoveDone, command=PushPairs, is_repeatable=True
)
def post_pairs(visit: Visit, command: PushPairs) -> Tagged:
    """Push measurements of a shadow and the live version; repeating it changes nothing."""
    asset_etag(visit.workspace, command.asset)
    try:
        spans = [pairs_of(record) for record in command.spans]
    except msgspec.ValidationError as error:
        raise BadInputError(f"spans: {error}") from error
    ref = VersionRef(asset=command.asset, version=command.version)
    person, environment = visit.identity.person, command.environment
    done = push_pairs(visit.workspace, ref, spans, actor=person, environment=environment)
    return move_done(visit.workspace, command.asset, *done)


@doors.act("/assets/{asset}/canary/due", MoveDone, command=RunDue, is_repeatable=True)
def post_due(visit: Visit, command: RunDue) -> Tagged:
    """Do what is due: judge windows, ramp, pause, roll back, end a watch."""
    asset_etag(visit.workspace, command.asset)
    return move_done(visit.workspace, command.asset, *do_due(visit.acting, command))


@doors.act("/assets/{asset}/service-reports", MoveDone, command=ReportService, is_repeatable=True)
def post_service(visit: Visit, command: ReportService) -> Tagged:
    """Report the good events and all events of a time span."""
    asset_etag(visit.workspace, command.asset)
    return move_done(visit.workspace, command.asset, act(visit.workspace, command))


@doors.act("/drift/points", Pushed, command=PushPoints, is_repeatable=True)
def post_points(visit: Visit, command: PushPoints) -> Pushed:
    """Push points of watched metrics; repeating it changes nothing."""
    with write_records(command.points) as path:
        return push_points(visit.acting, [path], ReadingChoices(), now=visit.workspace.clock())


@doors.act("/drift/episodes/{episode}/closing", Closed, command=CloseRequest)
def post_episode_closing(visit: Visit, command: CloseRequest) -> Closed:
    """Close an episode and start a new baseline. Needs a session."""
    return Closed(close_episode(visit.workspace, command, visit.workspace.clock()).id)
