"""The template environment of pages: everything is escaped, undefined variables are errors."""

from __future__ import annotations

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined

from gatemark.report import words


def page_environment(*first: BaseLoader) -> Environment:
    """Return the environment with the report templates; ``loaders`` are searched first."""
    return Environment(
        loader=ChoiceLoader(
            [
                *first,
                *(
                    PackageLoader(package, "templates")
                    for package in (
                        "gatemark.report",
                        "gatemark.lifecycle.views",
                        "gatemark.drift.views",
                        "gatemark.attribution",
                    )
                ),
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )


def _finalize(value: object) -> object:
    return words.clean(value) if type(value) is str else value
