"""Typer's commands without pydantic and rich: both are slow to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_INTEGERS = ("integer", "integer range", "int range")
"""The names of Typer's types in messages about invalid numbers."""


def lighten(command: Any) -> None:
    """Print help without rich and convert text without pydantic: each import takes 0.09 s."""
    command.rich_markup_mode = None
    command.short_help = first_sentence(command.help)
    for each in command.params:
        if each.type.name in _INTEGERS:
            each.type.name = "whole number"
    command.get_params = _plain_params(command)
    command.format_options = _plain_options(command)


def first_sentence(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _plain_options(command: Any) -> Callable[[Any, Any], None]:
    """Return a help writer with the global options in their own section."""

    def format_options(ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for each in command.get_params(ctx):
            own = "Arguments" if each.param_type_name == "argument" else "Options"
            record = each.get_help_record(ctx)
            if record is not None:
                title = getattr(each, "rich_help_panel", None) or own
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if hasattr(command, "format_commands"):
            command.format_commands(ctx, formatter)

    return format_options


def _plain_params(command: Any) -> Callable[[Any], Any]:
    """Return a parameter reader without conversion of text and missing values."""
    get_params = command.get_params

    def get_plain_params(ctx: Any) -> Any:
        parameters = get_params(ctx)
        for each in parameters:
            vars(each).setdefault("process_value", _plain_process(each))
        return parameters

    return get_plain_params


def _plain_process(parameter: Any) -> Callable[[Any, Any], Any]:
    convert = parameter.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        is_left_out = value is None and not parameter.required
        if not (is_left_out or _is_text(parameter, value)):
            return convert(ctx, value)
        called = parameter.callback
        return value if called is None else called(ctx, parameter, value)

    return process_value


def _is_text(parameter: Any, value: Any) -> bool:
    # Older releases of Typer have no descriptors, and no pydantic.
    kind = getattr(parameter, "type_descriptor", None)
    is_text = kind is not None and kind.annotation is str and not kind.parameter_info.parser
    return is_text and isinstance(value, str)
