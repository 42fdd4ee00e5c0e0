"""Post a comment on a pull request of GitHub, or replace the one that an earlier run posted.

Everything comes from the variables that GitHub sets for a job. The token is sent to the address of
the interface and nowhere else: redirects are refused, and it is never part of a message.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from gatemark.core.errors import BadInputError, UsageError

API: Final = "https://api.github.com"
TIMEOUT_S: Final = 30
MAX_PAGES: Final = 30
PER_PAGE: Final = 100
MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
T = TypeVar("T")

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class _Numbered(msgspec.Struct):
    number: int


class _Event(msgspec.Struct):
    pull_request: _Numbered | None = None


class _Author(msgspec.Struct):
    login: str = ""
    type: str = ""


class _Comment(msgspec.Struct):
    id: int
    html_url: str = ""
    body: str | None = None
    user: _Author | None = None


class PullRequest(msgspec.Struct, frozen=True):
    """A pull request, and how to reach the interface that holds it."""

    api: str
    repository: str
    number: int
    token: str
    actor: str = ""

    def __repr__(self) -> str:
        return f"PullRequest({self.repository}#{self.number})"


def pull_request_of(environ: Mapping[str, str]) -> PullRequest:
    """Read the variables of a job; raise UsageError naming the one that is missing or wrong."""
    repository = _require_variable(environ, "GITHUB_REPOSITORY")
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(f"GITHUB_REPOSITORY must look like owner/name, got {repository!r}")
    api = environ.get("GITHUB_API_URL", API).rstrip("/")
    address = urlsplit(api)
    if address.scheme != "https" and address.hostname not in _LOOPBACK:
        raise UsageError("GITHUB_API_URL must start with https://")
    event = _read_event(Path(_require_variable(environ, "GITHUB_EVENT_PATH")))
    if event.pull_request is None:
        raise UsageError(
            "this job was not started by a pull request; run it 'on: pull_request', "
            "or print the comment without --post"
        )
    return PullRequest(
        api=api,
        repository=repository,
        number=event.pull_request.number,
        token=_require_variable(environ, "GITHUB_TOKEN"),
        actor=environ.get("GITHUB_ACTOR", ""),
    )


def _require_variable(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise UsageError(f"{name} is not set; --post github needs it (GitHub sets it in a job)")
    return value


def _read_event(path: Path) -> _Event:
    try:
        if path.stat().st_size > MAX_EVENT_BYTES:
            raise BadInputError(f"{path}: an event must be at most {MAX_EVENT_BYTES} bytes")
        return msgspec.json.decode(path.read_bytes(), type=_Event)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{path}: not an event of GitHub: {error}") from error


def post_comment(pull: PullRequest, text: str, marker: str) -> str:
    """Post the text, or replace our comment with the same marker; return its address."""
    base = f"/repos/{pull.repository}/issues"
    for comment in _list_comments(pull, f"{base}/{pull.number}/comments"):
        if _is_ours(comment, pull, marker):
            place = f"{base}/comments/{comment.id}"
            return _send_comment(pull, "PATCH", place, text).html_url
    return _send_comment(pull, "POST", f"{base}/{pull.number}/comments", text).html_url


def _is_ours(comment: _Comment, pull: PullRequest, marker: str) -> bool:
    """Return whether we wrote the comment: anybody can copy a marker into their own."""
    author = comment.user or _Author()
    return (comment.body or "").startswith(marker) and (
        author.type == "Bot" or (author.login == pull.actor and bool(pull.actor))
    )


def _list_comments(pull: PullRequest, place: str) -> Iterator[_Comment]:
    for page in range(1, MAX_PAGES + 1):
        data = _call(pull, "GET", f"{place}?per_page={PER_PAGE}&page={page}", None)
        found = _decode_as(data, list[_Comment])
        yield from found
        if len(found) < PER_PAGE:
            return


def _send_comment(pull: PullRequest, method: str, place: str, text: str) -> _Comment:
    return _decode_as(_call(pull, method, place, msgspec.json.encode({"body": text})), _Comment)


def _decode_as(data: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"GitHub sent an answer that cannot be read: {error}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: urllib would send the token along."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _call(pull: PullRequest, method: str, place: str, body: bytes | None) -> bytes:
    request = urllib.request.Request(  # noqa: S310 - https, or loopback in tests
        pull.api + place,
        data=body,
        method=method,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {pull.token}",
            "Content-Type": "application/json",
            "User-Agent": "gatemark",
        },
    )
    try:
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            data: bytes = answer.read(MAX_EVENT_BYTES)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            raise BadInputError(_explain_refusal(error.code, pull)) from error
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        raise BadInputError(f"{pull.api} cannot be reached: {reason}") from error
    return data


def _explain_refusal(code: int, pull: PullRequest) -> str:
    hint = {
        401: "the token is not valid",
        403: "the job needs 'permissions: pull-requests: write'",
        404: f"there is no pull request {pull.number}, or the token may not see it",
    }
    return f"GitHub refused the comment with {code}: {hint.get(code, 'see its status page')}"
