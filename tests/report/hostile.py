"""Results whose every text was written by somebody who wants to break the page."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from tests.reasons import state_reason

from gatemark.core.canonical import digest_bytes
from gatemark.core.measurement import Evidence, EvidenceFile, Interval, measured, unmeasured
from gatemark.core.policy import Bench, Waiver
from gatemark.core.result import (
    AssetRef,
    Blob,
    Cost,
    Matrix,
    PackRef,
    Reliability,
    ReliabilityBin,
    Result,
    ShiftBin,
    Shifts,
    Table,
)

from .sample_results import STARTED_AT, finding, result

NASTY = (
    "<script>alert(1)</script>",
    "</style><script>",
    "--><img src=x onerror=alert(1)>",
    "a|b|c",
    "x\n| y | z |\n---",
    "\\|",
    "# heading",
    "1. item",
    "- - -",
    "> quote",
    "`code`",
    "``` fence",
    "[text](javascript:alert(1))",
    "![x](https://evil.example/x.png)",
    "https://evil.example/",
    "www.evil.example",
    "<https://evil.example>",
    "@everyone #12",
    "{{ 7*7 }}{% raw %}",
    "]]>&amp;&#60;",
    "\x00\x1b[31mred\x07",
    "\u202etxt.exe\u2066",
    "\ufffe\uffff\U0001ffff",
    "\u2028\u2029\x85\r\n\t\v\f",
    "'\"><svg onload=alert(1)>",
    "[bold red]markup[/]",
    ":tada:",
    "*a* _b_ ~~c~~ $d$",
    "",
    " ",
)

texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=20),
    st.tuples(st.text(max_size=5), st.sampled_from(NASTY), st.text(max_size=5)).map("".join),
)
filled = texts.map(lambda text: text if text.strip() else f"x{text}")
cells = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def tables(draw: Any) -> Table:
    columns = draw(st.lists(texts, min_size=1, max_size=4))
    width = len(columns)
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width).map(tuple), max_size=4))
    total = len(rows) + draw(st.integers(0, 3))
    return Table(draw(texts), tuple(columns), tuple(rows), total)


@st.composite
def matrices(draw: Any) -> Matrix:
    labels = draw(st.lists(texts, max_size=4))
    size = len(labels)
    row = st.lists(st.integers(0, 10**6), min_size=size, max_size=size).map(tuple)
    counts = draw(st.lists(row, min_size=size, max_size=size))
    return Matrix(draw(texts), draw(texts), draw(texts), tuple(labels), tuple(counts))


rates = st.floats(0, 1)


@st.composite
def reliabilities(draw: Any) -> Reliability:
    edges = draw(st.lists(rates, min_size=2, max_size=5, unique=True).map(sorted))
    bins = []
    for low, high in pairwise(edges):
        n = draw(st.integers(0, 10**6))
        low_end, high_end = sorted((draw(rates), draw(rates)))
        numbers = (draw(rates), draw(rates), low_end, high_end) if n else (None,) * 4
        bins.append(ReliabilityBin(low, high, n, *numbers))
    return Reliability(draw(texts), tuple(bins))


numbers = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def shifts(draw: Any) -> Shifts:
    sizes = draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
    bins = []
    first = 1
    for size in sizes:
        low, middle, high = sorted((draw(numbers), draw(numbers), draw(numbers)))
        bins.append(ShiftBin(first, first + size - 1, low, middle, high))
        first += size
    return Shifts(draw(texts), draw(texts), tuple(bins), draw(numbers), draw(st.none() | numbers))


@st.composite
def hostile_results(draw: Any) -> Result:
    """A sealed result with hostile text in every place that takes text."""
    metric = draw(filled)
    number = draw(st.floats(-1e12, 1e12))
    digest = digest_bytes(b"x")
    verdict = draw(st.sampled_from(["fail", "inconclusive"]))
    return result(
        title=draw(texts),
        pack=PackRef(draw(texts), 1, draw(texts)),
        candidate=AssetRef(draw(texts), draw(texts)),
        snapshots=(draw(texts),),
        runtime={draw(texts): draw(texts)},
        evidence=(
            Evidence(
                received=1,
                accepted=1,
                rejected=0,
                usable=1,
                missing=0,
                expected=None,
                files=(EvidenceFile(draw(texts), digest, 1),),
                checks={draw(texts): draw(texts)},
            ),
        ),
        measurements=(
            measured(
                metric,
                number,
                n=3,
                direction="neutral",
                unit=draw(texts),
                interval=Interval(number, number, 0.95, draw(texts)),
                excluded={draw(texts): 1},
                caveats=(draw(texts),),
                scope=draw(texts),
            ),
            unmeasured(draw(filled), state_reason(draw(filled)), direction="higher_is_better"),
        ),
        findings=(
            finding(draw(filled), metric, verdict, observed=number, slack=number, op=draw(texts)),
            finding(draw(filled), draw(texts), "waived", reason=draw(filled), severity=draw(texts)),
        ),
        bench=Bench(None, state_reason(draw(filled))),
        verdict=verdict,
        blockers=tuple(draw(st.lists(filled, min_size=1, max_size=3))),
        caveats=(draw(texts),),
        figures=(draw(matrices()), draw(tables()), draw(reliabilities())),
        blobs=(Blob(draw(texts), digest, draw(texts)),),
        waivers=(Waiver(draw(filled), draw(filled), draw(filled), STARTED_AT),),
        actor=draw(texts),
        cost=Cost(0, draw(st.none() | st.floats(0, 1e6)), draw(st.none() | texts)),
    )
