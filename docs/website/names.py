"""The page of stable names: `python -m docs.website.names` writes docs/reference/names.md."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from typer import Context
from typer.main import get_command

import sparklake.cli
from docs.website import api
from docs.website.commands import commands
from docs.website.samples import samples
from docs.website.sources import ROOT
from sparklake import documents, errors
from sparklake.cli.app import app
from sparklake.graveler import commits
from sparklake.verbs.merges import replay
from sparklake.verbs.tables import stream_writes

PAGE = ROOT / "docs" / "reference" / "names.md"

_HEAD = """\
# Names

Programs can depend on these names: [releases](../releases.md) has the deprecation policy.
`python -m docs.website.names` writes this page.
"""


def names_page() -> str:
    """Return the page of all stable names."""
    texts = {**vars(commits), **vars(replay), **vars(stream_writes)}
    keys = [text for name, text in texts.items() if name.endswith("_METADATA_KEY")]
    sections = {
        "Python": _table("name", "parameters, fields or values", _python()),
        "Error kinds": _table("kind", "class, exit code", _errors()),
        "JSON documents": _table("document", "fields", _documents()),
        "JSON results of single commands": _table("function", "fields", _results()),
        "Metadata keys of commits": "".join(f"- `{each}`\n" for each in sorted(keys)),
        "Commands": _table("command", "arguments and options", _commands()),
    }
    return "\n".join([_HEAD, *(f"## {title}\n\n{text}" for title, text in sections.items())])


def _table(first: str, second: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"| `{name}` | {text.replace('|', ' or ')} |\n" for name, text in rows)
    return f"| {first} | {second} |\n|---|---|\n{lines}"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in names)


def _python() -> Iterator[tuple[str, str]]:
    for name, found in sorted(api.public_names(), key=lambda each: each[0]):
        if not name.startswith("sparklake.errors."):
            yield name, _code(_inner_names(found))


def _inner_names(found: Any) -> list[str]:
    """Return the values of an enumeration, the fields of a record, or else the parameters."""
    function = getattr(found, "__func__", found)
    if inspect.isclass(found) and issubclass(found, Enum):
        return [each.value for each in found]
    if is_dataclass(found):
        return [each.name for each in fields(found) if not each.name.startswith("_")]
    if not inspect.isfunction(function):
        return []
    return [each for each in inspect.signature(function).parameters if each not in {"self", "cls"}]


def _errors() -> Iterator[tuple[str, str]]:
    for name in api.names_of("sparklake.errors"):
        error = getattr(errors, name)
        yield error.kind, f"`{name}`, {error.exit_code}"


def _documents() -> Iterator[tuple[str, str]]:
    for name, function in sorted(vars(documents).items()):
        if name.endswith("_document") and not name.startswith("_"):
            merged: dict[str, Any] = {}
            for arguments in samples(function):
                merged |= function(**arguments)
            yield name.removesuffix("_document"), _fields(merged)


def _fields(document: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`{_inner_fields(value)}" for name, value in document.items())


def _inner_fields(value: object) -> str:
    if isinstance(value, list | tuple):
        value = next(iter(value), None)
    return f" ({_fields(value)})" if isinstance(value, Mapping) else ""


def _results() -> Iterator[tuple[str, str]]:
    """Yield the functions of commands that spell a document, with its fields."""
    folder = Path(sparklake.cli.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            keys = [key for node in ast.walk(function) for key in _printed_keys(node)]
            names = [each.value for each in keys if isinstance(each, ast.Constant)]
            if names and isinstance(function, ast.FunctionDef):
                module = path.relative_to(folder).with_suffix("").as_posix().replace("/", ".")
                yield f"{module}.{function.name}", _code(dict.fromkeys(names))


def _printed_keys(node: ast.AST) -> list[Any]:
    is_print = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "one"
    value = (
        node.args[0] if isinstance(node, ast.Call) and is_print else getattr(node, "value", None)
    )
    targets = [ast.unparse(each) for each in getattr(node, "targets", ())]
    is_document = is_print or targets == ["document"]
    return value.keys if is_document and isinstance(value, ast.Dict) else []


def _commands() -> Iterator[tuple[str, str]]:
    program: Any = get_command(app)
    context = Context(program, info_name="sparklake")
    yield "sparklake", _code(_parameters(program, context))
    shared = set(_parameters(program, context))
    for command, inner in commands(program, context):
        if not hasattr(command, "commands"):
            own = [each for each in _parameters(command, inner) if each not in shared]
            yield inner.command_path.removeprefix("sparklake "), _code(own)


def _parameters(command: Any, context: Any) -> list[str]:
    """Return the options of a command, and the metavars of its arguments."""
    names: list[str] = []
    for each in command.get_params(context):
        if each.param_type_name == "argument":
            names.append(each.metavar or each.name.upper())
        else:
            names += [*each.opts, *each.secondary_opts]
    return names


if __name__ == "__main__":
    PAGE.write_text(names_page(), encoding="utf-8")
