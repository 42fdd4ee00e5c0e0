"""The reference page of the Python API, made from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import gatemark

_OPENING = """\
# Python API

`import gatemark` gives you the commands as functions: the same checks, the same numbers, the same
verdicts. Bad input raises `GatemarkError`. A verdict raises only where you ask for it, with
`raise_for_verdict()`.

```python
import gatemark

comparison = gatemark.compare("base.jsonl", "cand.jsonl", margin=0.02)
print(comparison.verdict, comparison.report.p_value)

result = gatemark.run("evals/pack.yaml", jobs=8)
result.raise_for_verdict()
result.save("report.html")
frame = result.samples("golden").to_pandas()
```

[Gate in pytest](../how-to/gate-in-pytest.md) shows the fixture for test suites.
"""
_TABLE = "| Name | Meaning |\n|---|---|"


def python_page() -> str:
    """Every public name with its signature and its docstring."""
    parts = [_OPENING]
    values = {name: getattr(gatemark, name) for name in gatemark.__all__ if name != "__version__"}
    functions = {name: value for name, value in values.items() if inspect.isfunction(value)}
    classes = {name: value for name, value in values.items() if inspect.isclass(value)}
    for name, function in functions.items():
        parts.append(f"## `{name}`\n\n```text\n{_signature(name, function)}\n```\n")
        parts.append(_doc(function))
    for name, kind in classes.items():
        parts.append(f"## `{name}`\n")
        parts.append(_doc(kind))
        if rows := list(_members(kind)):
            parts.append("\n".join([_TABLE, *rows]) + "\n")
    return "\n".join(parts)


def _signature(name: str, function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    if len(signature.parameters) < 3:
        return f"{name}{signature}"
    lines = ",\n".join(f"    {text}" for text in _parameters(signature))
    return f"{name}(\n{lines},\n) -> {str(signature.return_annotation).strip(chr(39))}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    star = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        kind = str(parameter.annotation).strip("'")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        yield f"{stars}{parameter.name}: {kind}{default}"


def _doc(value: object) -> str:
    return (inspect.getdoc(value) or "").replace("``", "`") + "\n"


def _members(kind: type) -> Iterator[str]:
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"| `.{name}` | {_first_line(value.fget)} |"
        elif inspect.isfunction(value):
            text = str(inspect.signature(value)).replace("'", "").replace("self, ", "")
            text = text.replace("(self)", "()").replace("|", "\\|")
            yield f"| `.{name}{text}` | {_first_line(value)} |"


def _first_line(value: object) -> str:
    return _doc(value).splitlines()[0].replace("|", "\\|")
