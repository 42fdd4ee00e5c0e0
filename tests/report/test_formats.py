from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from gatemark.core.errors import IntegrityError, UsageError
from gatemark.report.outputs import FORMATS, format_for, render

from .sample_results import PASSING, SAMPLES


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_of_every_result_is_the_same_bytes_twice(name: str, extension: str) -> None:
    first = render(SAMPLES[name], extension)
    assert first == render(SAMPLES[name], extension)
    assert first.decode().strip()


@pytest.mark.parametrize("extension", FORMATS)
def test_every_format_names_the_result_by_its_id(extension: str) -> None:
    assert PASSING.id in render(PASSING, extension).decode()


@pytest.mark.parametrize(
    ("path", "extension"),
    [
        ("out.json", ".json"),
        ("some.dir/report.v2.HTML", ".html"),
        ("a.junit.xml", ".junit.xml"),
        ("a.jsonl", ".jsonl"),
        ("notes.junit.md", ".md"),
        ("a.html/", ".html"),
    ],
)
def test_the_extension_picks_the_format(path: str, extension: str) -> None:
    assert format_for(path) == extension


@pytest.mark.parametrize("path", ["a.xml", "junit.xml", "report", "a.json.gz", "", "."])
def test_an_unknown_extension_is_refused_with_the_known_ones(path: str) -> None:
    with pytest.raises(UsageError, match=r"\.json, \.md, \.html, \.junit\.xml, \.jsonl"):
        format_for(path)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match=r"known: \.json"):
        render(PASSING, ".pdf")


@pytest.mark.parametrize("extension", FORMATS)
def test_a_result_that_does_not_verify_gets_no_report(extension: str) -> None:
    forged = msgspec.structs.replace(PASSING, title="another title")
    with pytest.raises(IntegrityError, match="does not verify"):
        render(forged, extension)


@pytest.mark.parametrize("package", ["jinja2", "altair", "vl_convert"])
def test_html_without_its_extra_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("gatemark.report.html", "gatemark.report.charts", "gatemark.report.pages"):
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.delattr("gatemark.report." + module.rpartition(".")[2], raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"needs {package}.*pip install 'gatemark\[report\]'"):
        render(PASSING, ".html")


def test_asking_for_json_loads_no_heavy_package() -> None:
    script = (
        "import sys, gatemark.report.outputs, gatemark.report.json_report;"
        "print([m for m in ('altair', 'jinja2', 'rich', 'vl_convert') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
