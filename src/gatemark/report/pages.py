"""The template environment of pages: everything is escaped, undefined variables are errors."""

from __future__ import annotations

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined

from gatemark.report import words


def page_environment(*first: BaseLoader) -> Environment:
    """Return the environment with the report templates; ``first`` is searched first."""
    packages = ("report", "lifecycle.views", "drift.views", "attribution")
    others = (PackageLoader(f"gatemark.{package}", "templates") for package in packages)
    return Environment(
        loader=ChoiceLoader([*first, *others]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean_value,
    )


def _clean_value(value: object) -> object:
    return words.clean(value) if type(value) is str else value
