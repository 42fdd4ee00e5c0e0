"""Errors as problem details (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from fastapi import Response

from gatemark.core.errors import (
    BadInputError,
    ConflictError,
    GatemarkError,
    IncomparableError,
    IntegrityError,
    InvalidValueError,
    NewerFormatError,
    NotAllowedError,
    OtherRulesError,
    OutageError,
    RefusedError,
    UnknownNameError,
    UsageError,
)

PROBLEM: Final = "application/problem+json"
RETRY_S: Final = 10
"""Retry-After in seconds when the store is unavailable."""
STATUS: Final[tuple[tuple[type[GatemarkError], HTTPStatus], ...]] = (
    (OutageError, HTTPStatus.SERVICE_UNAVAILABLE),
    (UnknownNameError, HTTPStatus.NOT_FOUND),
    (NotAllowedError, HTTPStatus.FORBIDDEN),
    (ConflictError, HTTPStatus.CONFLICT),
    (RefusedError, HTTPStatus.CONFLICT),
    (IncomparableError, HTTPStatus.CONFLICT),
    (IntegrityError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (NewerFormatError, HTTPStatus.NOT_IMPLEMENTED),
    (OtherRulesError, HTTPStatus.NOT_IMPLEMENTED),
    (BadInputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (InvalidValueError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UsageError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


class ProblemResponse(Exception):  # noqa: N818 - RFC 9457 calls it a problem
    """An error response."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        reasons: tuple[str, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}
        self.reasons = reasons

    def document(self) -> dict[str, object]:
        """Return the JSON document."""
        plain: dict[str, object] = {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": int(self.status),
            "detail": self.detail,
        }
        return plain | ({"reasons": list(self.reasons)} if self.reasons else {})

    def response(self) -> Response:
        """Return the HTTP response."""
        return Response(
            msgspec.json.encode(self.document()),
            status_code=int(self.status),
            media_type=PROBLEM,
            headers=self.headers,
        )


def problem_of(error: GatemarkError) -> ProblemResponse:
    """Return the problem for a Gatemark error."""
    status = next(
        (status for kind, status in STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST
    )
    first, *reasons = error.lines()
    is_outage = status == HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": str(RETRY_S)} if is_outage else {}
    return ProblemResponse(status, first, headers=headers, reasons=tuple(reasons))
