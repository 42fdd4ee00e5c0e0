"""Send an alert as a signed POST request.

The receiver checks ``X-Gatemark-Signature`` and drops deliveries that it has already seen. The
signature is HMAC-SHA256 over timestamp, a dot, and the body, in hex after ``v1=``.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import time
import urllib.parse
from typing import Final

from gatemark.release.alerts.alert import Alert, WebhookSink
from gatemark.release.alerts.sinks import DeliveryError

SIGNATURE: Final = "X-Gatemark-Signature"
TIMESTAMP: Final = "X-Gatemark-Timestamp"
DELIVERY: Final = "X-Gatemark-Delivery"
MAX_ANSWER_BYTES: Final = 64 * 1024


def send(alert: Alert, sink: WebhookSink) -> None:
    """Post an alert; temporary failures are retried with growing delays."""
    body = alert.body
    problem = ""
    _check_address(sink.url)
    for attempt in range(sink.attempts):
        if attempt:
            time.sleep(sink.wait_s * 2 ** (attempt - 1))
        try:
            status = _post(body, alert, sink)
        except (OSError, http.client.HTTPException) as error:
            problem = f"{type(error).__name__}: {error}"
            continue
        if 200 <= status < 300:
            return
        problem = f"the receiver answered {status}"
        if status < 500 and status not in (408, 429):
            break
    raise DeliveryError(f"{problem} (after {attempt + 1} attempts)")


def _check_address(url: str) -> None:
    """Refuse what the library would refuse with a message that quotes the key in the address."""
    try:
        is_possible = url.isascii() and url.isprintable() and " " not in url
        _ = urllib.parse.urlsplit(url).port
    except ValueError:
        is_possible = False
    if not is_possible:
        raise DeliveryError("the url of the sink has characters that no address can have")


def sign_body(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature of a body at a time."""
    mark = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256)
    return f"v1={mark.hexdigest()}"


def _post(body: bytes, alert: Alert, sink: WebhookSink) -> int:
    """Make one attempt. Redirects are not followed: they would leak the signature."""
    parts = urllib.parse.urlsplit(sink.url)
    is_secure = parts.scheme == "https"
    maker = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
    connection = maker(parts.hostname or "", parts.port, timeout=sink.time_limit_s)
    try:
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        connection.request("POST", target, body, _build_headers(body, alert, sink))
        answer = connection.getresponse()
        answer.read(MAX_ANSWER_BYTES)
        return answer.status
    finally:
        connection.close()


def _build_headers(body: bytes, alert: Alert, sink: WebhookSink) -> dict[str, str]:
    headers = {"Content-Type": "application/json", DELIVERY: alert.id}
    if sink.secret_env is not None:
        secret = os.environ.get(sink.secret_env)
        if not secret:
            raise DeliveryError(f"the variable {sink.secret_env} holds no secret to sign with")
        timestamp = str(int(time.time()))
        headers[TIMESTAMP] = timestamp
        headers[SIGNATURE] = sign_body(secret.encode(), timestamp, body)
    return headers
