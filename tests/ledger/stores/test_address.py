"""The password of a store's address is never shown: not by commands, not by errors, not by logs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import gatemark as package
from gatemark.core.errors import GatemarkError
from gatemark.workspace import Workspace

SECRET = "hunter2"
Run = Callable[..., Any]
ADDRESSES = [
    f"postgresql://ada:{SECRET}@127.0.0.1:1/gm",
    f"postgres://ada:{SECRET}@127.0.0.1:1/gm",
    f"postgresql://ada:p@{SECRET}@127.0.0.1:1/gm",
    f"postgresql://ada:p%40{SECRET}@127.0.0.1:1/gm",
    f"postgresql://{SECRET}/ada@127.0.0.1:1/gm",
    f"postgresql://127.0.0.1:1/gm?user=ada&password={SECRET}",
    f"postgresql://127.0.0.1:1/gm?sslpassword={SECRET}&sslkey=/nowhere",
    f"postgresql://127.0.0.1:{SECRET}/gm",
    f"postgresql://127.0.0.1:1/gm?{SECRET}",
    f"mysql://ada:{SECRET}@127.0.0.1:1/gm",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_store_that_cannot_be_reached_keeps_its_password(
    gatemark: Run, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for command in (("list",), ("store", "info"), ("ledger", "verify"), ("serve", "--port", "0")):
        ran = gatemark(*command, "--store", address)
        assert ran.code == 2, ran
        assert SECRET not in ran.out + ran.err
    assert SECRET not in caplog.text


def test_the_place_of_a_store_is_still_named() -> None:
    assert Workspace(store=ADDRESSES[0]).address == "postgresql://127.0.0.1/gm"
    assert Workspace(store="some/folder").address == "some/folder"
    with pytest.raises(
        GatemarkError, match=r"^postgresql://127\.0\.0\.1/gm: is not a usable store"
    ):
        Workspace(store=ADDRESSES[0]).existing_store()


def test_a_server_does_not_print_the_password(postgres_url: str) -> None:
    url = sa.make_url(postgres_url).set(password=SECRET)
    with subprocess.Popen(
        [sys.executable, "-m", "gatemark", "serve", "--port", "0"],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(package.__file__).parents[1]),
            "GATEMARK_STORE": url.render_as_string(hide_password=False),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        told = server.stdout.readline()
        server.stdout.readline()
        # Not SIGINT: a suite that runs in the background of a shell has it ignored.
        server.terminate()
        rest, trouble = server.communicate(timeout=60)
    assert told.startswith("Gatemark serves postgresql://")
    assert SECRET not in told + rest + trouble
