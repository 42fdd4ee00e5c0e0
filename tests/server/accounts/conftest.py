"""Accounts hash passwords as people get them, unlike the tests of pages."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _quick_passwords() -> None:
    """Leave the parameters of Argon2 alone."""
