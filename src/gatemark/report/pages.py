"""The template environment of pages: everything is escaped, undefined variables are errors."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from gatemark.report import words


def page_environment(*packages: str) -> Environment:
    """Return an environment with the templates of packages, and after them those of reports."""
    searched = (*packages, "gatemark.report")
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates") for package in searched]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean_value,
    )


def _clean_value(value: object) -> object:
    return words.clean(value) if type(value) is str else value
