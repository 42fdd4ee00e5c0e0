"""Every command declares the types of what click hands it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import pytest

from gatemark.cli.main import gatemark as root
from gatemark.cli.options import OptionGroup

Run = Callable[..., Any]

UNTYPED = ("overhead run", "score ")
"""The commands of exams may take a mapping: an exam declares its options itself."""


def _commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        place = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from _commands(command, place)
        else:
            yield place, command


COMMANDS = dict(_commands(root))


def _unwrapped(function: Any) -> tuple[Any, list[OptionGroup[Any]]]:
    """The function that was decorated, and the groups around it, the outermost first."""
    groups: list[OptionGroup[Any]] = []
    while hasattr(function, "__wrapped__"):
        held = [cell.cell_contents for cell in function.__closure__ or ()]
        groups += [value for value in held if isinstance(value, OptionGroup)]
        function = function.__wrapped__
    return function, groups


def _value_type(kind: click.ParamType[Any]) -> Any:
    """The type of one value, as click converts it."""
    if isinstance(kind, click.Tuple):
        return tuple[tuple(_value_type(part) for part in kind.types)]
    if isinstance(kind, click.Choice):
        return Literal[tuple(kind.choices)]
    for base, value_type in (
        (click.types.BoolParamType, bool),
        (click.types.IntParamType, int),
        (click.types.FloatParamType, float),
        (click.types.StringParamType, str),
        (click.Path, str),
    ):
        if isinstance(kind, base):
            return value_type
    (generic,) = (base for base in type(kind).__orig_bases__ if get_args(base))
    return get_args(generic)[0]


def _given_type(parameter: click.Parameter) -> Any:
    """The type of what a command gets."""
    value_type = _value_type(parameter.type)
    if parameter.nargs == -1 or getattr(parameter, "multiple", False):
        return tuple[value_type, ...]
    has_value = parameter.required or parameter.get_default(click.Context(root)) is not None
    return value_type if has_value else value_type | None


def _takes(declared: Any, given: Any) -> bool:
    """Whether every value of the type ``given`` is one of the type ``declared``."""
    if get_origin(given) in (Union, types.UnionType):
        return all(_takes(declared, part) for part in get_args(given))
    if get_origin(declared) in (Union, types.UnionType):
        return any(_takes(part, given) for part in get_args(declared))
    if get_origin(given) is Literal:
        if get_origin(declared) is Literal:
            return set(get_args(given)) <= set(get_args(declared))
        return all(type(value) is declared for value in get_args(given))
    if get_origin(given) is tuple and get_origin(declared) is tuple:
        pairs = zip(get_args(declared), get_args(given), strict=True)
        return all(mine is yours or _takes(mine, yours) for mine, yours in pairs)
    return bool(declared == given)


def _check(declared: Mapping[str, Any], given: Mapping[str, click.Parameter]) -> None:
    for name, parameter in given.items():
        assert name in declared, f"no parameter {name} for {parameter.opts[0]}"
        wanted = _given_type(parameter)
        assert _takes(declared[name], wanted), f"{name}: {declared[name]}, click gives {wanted}"


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_declares_what_click_gives(path: str) -> None:
    command = COMMANDS[path]
    function, groups = _unwrapped(command.callback)
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        assert path.startswith(UNTYPED)
        return
    hints = get_type_hints(function)
    hints.pop("return")
    grouped = {option.name for group in groups for option in group.fields.values()}
    own = {str(one.name): one for one in command.params if one.name not in grouped}
    _check(hints, own)
    assert len(hints) == len(own) + len(groups)
    for group in groups:
        if isinstance(group.build, partial):
            # What it keeps as given is read by the struct, field by field.
            names = {name for one in group.build.args for name in one.__struct_fields__}
            assert {*group.fields} <= names
        else:
            _check(get_type_hints(group.build), group.fields)


def test_a_group_hands_over_one_value_and_its_options_keep_their_names() -> None:
    def build(tool: str, moments: tuple[datetime, ...]) -> str:
        return f"{tool} {len(moments)}"

    group = OptionGroup(
        build,
        tool=click.option("--from", default="auto"),
        moments=click.option("--at", multiple=True, type=click.DateTime()),
    )
    received: list[tuple[str, str]] = []

    @click.command(context_settings={"auto_envvar_prefix": "TOOL"})
    @click.argument("file")
    @group
    def read(log: str, *, file: str) -> None:
        """Read a file."""
        received.append((log, file))

    assert read.help == "Read a file."
    assert [parameter.name for parameter in read.params] == ["file", "from", "at"]
    read.main(["a.log", "--at", "2026-01-01", "--from", "otlp"], standalone_mode=False)
    assert received == [("otlp 1", "a.log")]


def test_options_whose_parameter_has_another_name_keep_their_environment_variable(
    gatemark: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, write_jsonl: Run
) -> None:
    samples = write_jsonl("samples.jsonl", [{"id": "a", "input": "x", "output": "y"}])
    monkeypatch.setenv("GATEMARK_IMPORT_FROM", "nonsense")
    ran = gatemark("import", samples)
    assert ran.code == 2
    assert "nonsense" in ran.err
    decisions = write_jsonl("decisions.jsonl", [])
    monkeypatch.setenv("GATEMARK_ATTRIBUTE_ID", "the-wanted-one")
    option = {one.name: one for one in COMMANDS["attribute"].params}["decision_id"]
    assert option.value_from_envvar(click.Context(COMMANDS["attribute"])) == "the-wanted-one"
    assert gatemark("attribute", decisions).code == 2
