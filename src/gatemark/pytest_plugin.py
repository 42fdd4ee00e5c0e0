"""A pytest plugin: gate a change inside a test suite.

Nothing happens unless a test asks for the fixture ``gatemark``, and nothing heavy is imported
before that. An inconclusive verdict is not a pass: it fails the test, or skips it with
``--gatemark-inconclusive=skip``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

if TYPE_CHECKING:
    from gatemark.api import Comparison, Result
    from gatemark.core.policy import Outcome

OnInconclusive = Literal["fail", "skip"]
AnySamples = str | PathLike[str] | Sequence[Mapping[str, object]] | Mapping[str, float | bool]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SCORE: Final = "score"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("gatemark")
    group.addoption(
        "--gatemark-inconclusive",
        choices=("fail", "skip"),
        default="fail",
        help="What an inconclusive verdict does to its test (default: fail).",
    )
    group.addoption(
        "--gatemark-store",
        metavar="PATH|URL",
        help="Store to seal the results of assert_gate in (default: a temporary one).",
    )
    group.addoption(
        "--gatemark-reports", metavar="DIR", help="Folder to write a Markdown report per test to."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of the plugin."""
    config.addinivalue_line(
        "markers", "gatemark(inconclusive='fail'|'skip'): what an inconclusive verdict does here"
    )


class GateFixture:
    """What the fixture ``gatemark`` gives a test."""

    def __init__(
        self, on_inconclusive: OnInconclusive, store: str | None, report: Path | None, scratch: Path
    ) -> None:
        self._on_inconclusive = on_inconclusive
        self._store = store
        self._report = report
        self._scratch = scratch

    def assert_no_regression(
        self, samples: AnySamples, *, baseline: AnySamples, margin: float, **options: Any
    ) -> Comparison:
        """Compare with a baseline; fail unless a drop above ``margin`` is ruled out.

        Samples are a file, a log of another tool, records (``gatemark.sample/1``), or scores by
        item: ``{"q1": 1, "q2": 0}``. ``options`` are those of ``gatemark.compare``.
        """
        from gatemark.api import compare  # noqa: PLC0415 - only tests that gate pay for it

        found = compare(
            self._write_samples(baseline, "baseline"),
            self._write_samples(samples, "candidate"),
            margin=margin,
            **options,
        )
        self._settle(found.verdict, found.report.reason, found.to_markdown())
        return found

    def assert_gate(self, pack: str | PathLike[str], **options: Any) -> Result:
        """Run a pack; fail unless it passes. ``options`` are those of ``gatemark.run``."""
        from gatemark.api import run  # noqa: PLC0415 - only tests that gate pay for it

        store = options.pop("store", None) or self._store or self._scratch / "store"
        found = run(pack, store=store, **options)
        reason = "; ".join(found.blockers) or found.title
        self._settle(found.verdict, reason, found.to_markdown())
        return found

    def _write_samples(self, samples: AnySamples, name: str) -> str | PathLike[str]:
        if isinstance(samples, str | PathLike):
            return samples
        path = self._scratch / f"{name}.jsonl"
        records = _convert_records(samples)
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    def _settle(self, verdict: Outcome, reason: str, report: str) -> None:
        if self._report is not None:
            self._report.parent.mkdir(parents=True, exist_ok=True)
            self._report.write_text(report, encoding="utf-8")
        if verdict == "pass":
            return
        if verdict == "inconclusive" and self._on_inconclusive == "skip":
            pytest.skip(f"gatemark: inconclusive: {reason}")
        pytest.fail(f"gatemark: {verdict}: {reason}", pytrace=False)


def _convert_records(
    samples: Sequence[Mapping[str, object]] | Mapping[str, float | bool],
) -> list[dict[str, object]]:
    """Return samples as records; scores by item become samples with nothing but a score."""
    if isinstance(samples, Mapping):
        samples = [{"id": key, "scores": {_SCORE: float(value)}} for key, value in samples.items()]
    empty: dict[str, object] = {"schema": "gatemark.sample/1", "epoch": 1, "input": None}
    empty |= {"target": None, "output": None, "scores": {}}
    return [{**empty, **record} for record in samples]


@pytest.fixture
def gatemark(request: pytest.FixtureRequest) -> Iterator[GateFixture]:
    """Gate a change: ``gatemark.assert_no_regression(…)`` and ``gatemark.assert_gate(…)``."""
    config = request.config
    marker = request.node.get_closest_marker("gatemark")
    chosen = (marker.kwargs if marker else {}).get("inconclusive")
    chosen = chosen or config.getoption("--gatemark-inconclusive")
    if chosen not in ("fail", "skip"):
        raise pytest.UsageError(f"gatemark(inconclusive={chosen!r}): must be 'fail' or 'skip'")
    folder = config.getoption("--gatemark-reports")
    name = _UNSAFE.sub("-", request.node.nodeid).strip("-")
    with TemporaryDirectory(prefix="gatemark-") as scratch:
        yield GateFixture(
            chosen,
            config.getoption("--gatemark-store"),
            Path(folder) / f"{name}.md" if folder else None,
            Path(scratch),
        )
