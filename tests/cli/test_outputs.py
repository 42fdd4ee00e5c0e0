from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from gatemark.cli.screen import Outputs, optional_import, output_options, show
from gatemark.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("one line", "one line\n"),
        ("a table\n", "a table\n"),
        (["two", "lines\n"], "two\nlines\n\n"),
    ],
)
def test_text_is_printed_with_one_newline_at_its_end_and_lines_as_they_are(
    text: str | list[str], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show({"n": 1}, lambda _: text, json=False)
    assert capsys.readouterr().out == printed


def test_json_is_one_document_and_the_text_is_not_made(capsys: pytest.CaptureFixture[str]) -> None:
    show({"n": 1}, lambda found: f"{found['missing']}", json=True)
    assert json.loads(capsys.readouterr().out) == {"n": 1}


def _command(reached: list[Outputs]) -> click.Command:
    @click.command()
    @output_options(".json", ".html")
    def command(outputs: Outputs) -> None:
        reached.append(outputs)
        outputs.write({".json": lambda: b"{}\n", ".html": lambda: b"<p>\n"})

    return command


def test_every_file_is_written_by_the_renderer_of_its_extension(tmp_path: Path) -> None:
    reached: list[Outputs] = []
    page, document = tmp_path / "page.html", tmp_path / "a.json"
    _command(reached).main(["-o", str(page), "-o", str(document), "--json"], standalone_mode=False)
    assert reached == [Outputs((str(page), str(document)), json=True)]
    assert (page.read_bytes(), document.read_bytes()) == (b"<p>\n", b"{}\n")


def test_an_extension_nobody_writes_is_refused_before_any_work(tmp_path: Path) -> None:
    reached: list[Outputs] = []
    with pytest.raises(UsageError, match=r"must end in \.json, \.html"):
        _command(reached).main(["-o", str(tmp_path / "a.pdf")], standalone_mode=False)
    assert not reached


def test_a_missing_library_names_the_extra_to_install() -> None:
    message = r"metrics need nowhere_to_be_found, .*: pip install 'gatemark\[observe\]'"
    with pytest.raises(UsageError, match=message), optional_import("observe", "metrics need"):
        import nowhere_to_be_found  # noqa: F401


def test_a_missing_module_of_our_own_is_a_bug_and_not_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError), optional_import("report"):
        import gatemark.nowhere_to_be_found  # noqa: F401
