"""Send an alert by e-mail through an SMTP server."""

from __future__ import annotations

import os
import smtplib
import ssl
from email.message import EmailMessage

from gatemark.release.alerts.alert import Alert, MailSink
from gatemark.release.alerts.sinks import DeliveryError


def send(alert: Alert, sink: MailSink) -> None:
    """Send an alert as plain text, with its JSON attached."""
    try:
        with _connect(sink) as server:
            if sink.security == "starttls":
                server.starttls(context=ssl.create_default_context())
            if sink.user_env is not None and sink.password_env is not None:
                server.login(_read_variable(sink.user_env), _read_variable(sink.password_env))
            refused = server.send_message(make_message(alert, sink))
    except smtplib.SMTPException as error:
        raise DeliveryError(f"{sink.host}: {error}") from error
    if refused:
        raise DeliveryError(f"{sink.host}: refused {', '.join(sorted(refused))}")


def make_message(alert: Alert, sink: MailSink) -> EmailMessage:
    """Return the message; it has the alert's id, so that repeated deliveries are recognised."""
    message = EmailMessage()
    message["From"] = sink.sender
    message["To"] = ", ".join(sink.recipients)
    message["Subject"] = " ".join(f"[gatemark] {alert.level} {alert.subject}".split())[:200]
    message["Message-ID"] = f"<{alert.id.removeprefix('sha256:')}@gatemark>"
    message.set_content(alert.text)
    message.add_attachment(
        alert.body, maintype="application", subtype="json", filename="alert.json"
    )
    return message


def _connect(sink: MailSink) -> smtplib.SMTP:
    if sink.security == "tls":
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(sink.host, sink.port, timeout=sink.time_limit_s, context=context)
    return smtplib.SMTP(sink.host, sink.port, timeout=sink.time_limit_s)


def _read_variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise DeliveryError(f"the variable {name} is not set")
    return value
