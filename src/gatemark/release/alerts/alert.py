"""Alerts, the sinks they go to, and the rules that select sinks for an alert."""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

import msgspec

from gatemark.core.canonical import canonical_bytes, digest
from gatemark.core.errors import InvalidValueError
from gatemark.core.levels import Level

SCHEMA: Final = "gatemark.alert/1"
Seconds = Annotated[float, msgspec.Meta(gt=0, le=120)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][\w.-]*$")]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A message to the owners. The same problem at the same level has the same id."""

    id: str
    schema: Literal["gatemark.alert/1"] = "gatemark.alert/1"
    kind: Literal["drift", "stale", "overdue", "schedule"]
    level: Level
    subject: str
    reason: str
    at: datetime
    asset: str | None = None
    metric: str | None = None
    episode: str | None = None
    actions: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        """Return the alert as canonical JSON."""
        return canonical_bytes(self)

    @property
    def text(self) -> str:
        """Return the alert as plain text."""
        lines = [self.reason, "", f"level: {self.level}", f"at: {self.at.isoformat()}"]
        for name, value in (("asset", self.asset), ("metric", self.metric)):
            if value is not None:
                lines.append(f"{name}: {value}")
        lines.extend(f"done: {action}" for action in self.actions)
        if self.episode is not None:
            lines.append(f"episode: {self.episode}")
        return "\n".join((*lines, f"alert: {self.id}", ""))


def alert_id(*names: str) -> str:
    """Return an alert id that depends only on the given names."""
    return digest(list(names))


class Sink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """A destination of alerts. ``levels`` and ``assets`` (patterns) filter them; default: all."""

    name: Name
    levels: tuple[Level, ...] = ()
    assets: tuple[str, ...] = ()
    time_limit_s: Seconds = 10.0

    def takes(self, alert: Alert) -> bool:
        """Return whether the filters of this sink accept an alert."""
        if self.levels and alert.level not in self.levels:
            return False
        if not self.assets:
            return True
        return any(fnmatchcase(alert.asset or "", pattern) for pattern in self.assets)


class WebhookSink(Sink, frozen=True, kw_only=True, tag="webhook"):
    """A signed POST request. ``secret_env`` names the variable that holds the secret."""

    url: Annotated[str, msgspec.Meta(pattern=r"^https?://", max_length=2048)]
    secret_env: str | None = None
    attempts: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.2


class FileSink(Sink, frozen=True, kw_only=True, tag="file"):
    """A file to which each alert is appended as one line of JSON."""

    path: str


class CommandSink(Sink, frozen=True, kw_only=True, tag="command"):
    """A program that reads the alert as JSON from standard input."""

    command: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.command:
            raise InvalidValueError(f"sink {self.name}: command is empty")


class MailSink(Sink, frozen=True, kw_only=True, tag="mail"):
    """An e-mail through an SMTP server; credentials come from the environment."""

    host: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 25
    sender: str
    recipients: tuple[str, ...]
    security: Literal["none", "starttls", "tls"] = "none"
    user_env: str | None = None
    password_env: str | None = None

    def __post_init__(self) -> None:
        if not self.recipients:
            raise InvalidValueError(f"sink {self.name}: mail has no recipients")
        if any("\n" in address or "\r" in address for address in (self.sender, *self.recipients)):
            raise InvalidValueError(f"sink {self.name}: an address contains a line break")
        if (self.user_env is None) != (self.password_env is None):
            raise InvalidValueError(
                f"sink {self.name}: user_env and password_env must be given together"
            )
        if self.user_env is not None and self.security == "none":
            raise InvalidValueError(f"sink {self.name}: a password needs starttls or tls")


AnySink = WebhookSink | FileSink | CommandSink | MailSink


class AlertPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All sinks of a workspace."""

    sinks: tuple[AnySink, ...] = ()

    def __post_init__(self) -> None:
        names = [sink.name for sink in self.sinks]
        if len(set(names)) < len(names):
            raise InvalidValueError("two sinks have the same name")
