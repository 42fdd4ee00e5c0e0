"""How to install an optional part of the package."""

from __future__ import annotations


def not_installed(needed_by: str, missing: str, extra: str) -> str:
    """Say what needs which package, and how to install it."""
    return (
        f"{needed_by} {missing}, which is not installed: pip install 'gatemark[{extra}]' "
        f"(in a checkout: pip install '.[{extra}]')"
    )
