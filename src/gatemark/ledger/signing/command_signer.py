"""Sign with a key that Gatemark never sees: a command reads the bytes and prints the signature.

This supports hardware tokens and key services. The command reads the bytes to sign on standard
input and prints the Ed25519 signature, as 64 bytes or in base64. It is not run by a shell. The
signature is verified with the public key before it is used.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import select
import shlex
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)

from gatemark.core.errors import BadInputError, UsageError
from gatemark.ledger.blobs import read_start
from gatemark.ledger.signing.note import VerifierKey

SECONDS: Final = 60
"""Timeout of the command; a user may have to touch a token."""
MOST_BYTES: Final = 4096
SIGNATURE_BYTES: Final = 64
MAX_PUBLIC_BYTES: Final = 4096


class CommandSigner:
    """A key that signs through a command."""

    def __init__(self, verifier: VerifierKey, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--signer-command: {error}") from error
        if not self._words:
            raise UsageError("--signer-command: is empty")
        self.verifier = verifier

    def sign(self, data: bytes) -> bytes:
        """Return the command's signature of ``data``; raise an error if it is not valid."""
        signature = _decode_signature(self._run_command(data))
        if signature is None or not self.verifier.accepts(data, signature):
            raise BadInputError(
                f"--signer-command {self._words[0]}: did not print an Ed25519 signature by "
                f"{self.verifier.label} of what it was given (64 bytes, or base64)"
            )
        return signature

    def _run_command(self, data: bytes) -> bytes:
        """Return the command's output, limited to slightly more than a signature needs."""
        name = f"--signer-command {self._words[0]}"
        with tempfile.TemporaryFile() as given:
            given.write(data)
            given.seek(0)
            try:
                running = subprocess.Popen(  # noqa: S603 - the user names the command
                    self._words, stdin=given, stdout=subprocess.PIPE
                )
            except OSError as error:
                raise BadInputError(f"{name}: {error.strerror or error}") from error
        try:
            printed = _read_until(running, time.monotonic() + SECONDS)
        except TimeoutError as error:
            raise BadInputError(f"{name}: took longer than {SECONDS:g} s") from error
        finally:
            running.kill()
            running.wait()
        if len(printed) > MOST_BYTES:
            raise BadInputError(f"{name}: printed more than {MOST_BYTES} bytes")
        if running.returncode > 0:
            raise BadInputError(f"{name}: ended with status {running.returncode}")
        return printed


def _read_until(running: subprocess.Popen[bytes], end: float) -> bytes:
    """Return the output of a process until it ends or prints too much; raise TimeoutError."""
    printed = b""
    with running.stdout or io.BytesIO() as stream:
        while len(printed) <= MOST_BYTES:
            ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            piece = os.read(stream.fileno(), MOST_BYTES)
            if not piece:
                # The process closed its output; the answer counts once the process has ended.
                with suppress(subprocess.TimeoutExpired):
                    running.wait(max(0.0, end - time.monotonic()))
                return printed
            printed += piece
    return printed


def _decode_signature(printed: bytes) -> bytes | None:
    if len(printed) == SIGNATURE_BYTES:
        return printed
    try:
        decoded = base64.b64decode(printed.strip(), validate=True)
    except binascii.Error:
        return None
    return decoded if len(decoded) == SIGNATURE_BYTES else None


def read_raw_public_key(path: str) -> bytes:
    """Return the Ed25519 public key in a file: PEM, DER, or its 32 bytes."""
    data = read_start(path, MAX_PUBLIC_BYTES + 1)
    if len(data) == 32:
        return data
    try:
        load = load_pem_public_key if data.startswith(b"-----") else load_der_public_key
        key = load(data)
    except ValueError as error:
        raise BadInputError(f"{path}: not a public key (expected PEM, DER or 32 bytes)") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadInputError(f"{path}: not an Ed25519 key")
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)
