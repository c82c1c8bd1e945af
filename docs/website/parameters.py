"""The parameter tables of the reference: parameters.yaml as a section of each docstring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import yaml

_EXAMPLES = "\n\nExamples:\n"


@cache
def meanings() -> dict[str, str]:
    """Return the meanings by NAME or by Class.method.NAME."""
    text = Path(__file__).with_name("parameters.yaml").read_text(encoding="utf-8")
    loaded: dict[str, str] = yaml.safe_load(text)
    return loaded


def find_meaning(function: str, parameter: str) -> str | None:
    """Return the meaning of a parameter of a function, by the function's full name."""
    owner = ".".join(function.split(".")[-2:])
    return meanings().get(f"{owner}.{parameter}", meanings().get(parameter))


def with_arguments(docstring: str, function: str, parameters: Iterable[str]) -> str:
    """Return a docstring with a section of its described parameters, before its examples."""
    lines = [
        f"    {each}: {meaning}"
        for each in parameters
        if (meaning := find_meaning(function, each.lstrip("*")))
    ]
    if not lines:
        return docstring
    text, examples, code = docstring.partition(_EXAMPLES)
    return "\n".join([f"{text.rstrip()}\n\nArgs:", *lines]) + examples + code


def wrong_meanings(functions: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """Yield a sentence for each parameter without a meaning, and each unused meaning."""
    unused = set(meanings())
    for function, parameters in functions:
        owner = ".".join(function.split(".")[-2:])
        for each in parameters:
            unused -= {each, f"{owner}.{each}"}
            if find_meaning(function, each) is None:
                yield f"docs/website/parameters.yaml lacks {each}, a parameter of {function}"
    yield from (f"docs/website/parameters.yaml has the unused {each}" for each in sorted(unused))
