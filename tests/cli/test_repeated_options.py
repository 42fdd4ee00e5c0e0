"""An option given twice is refused: click takes the last one, and evidence would be left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gatemark.cli.main import gatemark, main
from gatemark.cli.options import REPLACEABLE


def commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*words, name))


COMMANDS = dict(commands(gatemark, ()))


def once(command: click.Command) -> list[str]:
    """Return the options that take a value and cannot be repeated."""
    names = [
        max(option.opts, key=len)
        for option in command.params
        if isinstance(option, click.Option)
        and not (option.multiple or option.count or option.is_flag or option.nargs != 1)
    ]
    return [name for name in names if name not in REPLACEABLE]


@pytest.mark.parametrize("words", [words for words, command in COMMANDS.items() if once(command)])
def test_every_command_refuses_an_option_given_twice(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in once(COMMANDS[words]):
        assert main([*words.split(), option, "1", option, "2"]) == 2
        assert f"{option} was given more than once" in capsys.readouterr().err


def test_the_last_place_for_results_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["ledger", "verify", "--store", str(tmp_path / "a"), "--store", str(tmp_path / "b")])
        == 2
    )
    told = capsys.readouterr().err
    assert str(tmp_path / "b") in told
    assert "more than once" not in told


def test_options_that_may_be_repeated_and_flags_are_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    twice = ["--json", "--json", "-o", "a.json", "-o", "b.json"]
    assert main(["compare", "missing-1.csv", "missing-2.csv", *twice]) == 2
    assert capsys.readouterr().err == "gatemark: missing-1.csv: No such file or directory\n"
