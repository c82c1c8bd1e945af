"""The YAML of hook files: plain data with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from sparklake.errors import InvalidHooksError
from sparklake.uri import is_utf8

_STEP = re.compile(r"\.([\w-]+)|\[(\d+|\.\.\.)\]")
_MAX_DEPTH = 32
_SHOWN = 60
_BOOL = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A loader of plain YAML 1.2.

    `on` is a string, and only `true` and `false` are booleans.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  (like the base class)
        first: [each for each in resolvers if each[0] != _BOOL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return a node's data; raise ConstructorError for data that does not fit its tag.

        The library lets Python's own errors through, such as KeyError for `!!bool x`.
        """
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception as error:
            kind = node.tag.rpartition(":")[2]
            shown = repr(str(node.value)[:_SHOWN])
            problem = f"{shown} is not a valid {kind}: quote it if it is a string"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


_Loader.add_implicit_resolver(_BOOL, re.compile("true|false"), list("tf"))


def parsed(text: str) -> tuple[Any, yaml.Node]:
    """Return the data of a string and its root node; raise InvalidHooksError."""
    try:
        _check_shape(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidHooksError("line 1: the file is empty")
        for each in _mappings(node):
            _check_keys(each)
        return loader.construct_document(node), node
    except InvalidHooksError:
        raise
    except yaml.MarkedYAMLError as error:
        raise _wrong(error.problem_mark, error.problem or "no YAML") from None
    except Exception as error:  # noqa: BLE001  (the scanner raises OverflowError for "\UFFFFFFFF")
        raise InvalidHooksError(f"it is not YAML: {error}".splitlines()[0]) from None


def _check_shape(text: str) -> None:
    """Raise InvalidHooksError for deep nesting and aliases, before loading.

    Deep nesting takes time, and aliases multiply. Strings that are not UTF-8 are refused, too.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise _wrong(event.start_mark, f"it is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            raise _wrong(
                event.start_mark, "anchors and aliases are not supported: write the value out"
            )
        if isinstance(event, yaml.ScalarEvent) and not is_utf8(event.value):
            raise _wrong(
                event.start_mark, "a string has half of a surrogate pair: write the whole pair"
            )


def line_of(node: yaml.Node, path: str) -> int:
    """Return the line of a path such as `$.hooks[0].id`, or of the part around it."""
    for name, index in _STEP.findall(path):
        inner = _inner(node, name, index)
        if inner is None:
            break
        node = inner
    line: int = node.start_mark.line + 1
    return line


def _inner(node: yaml.Node, name: str, index: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode) and name:
        return next((value for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and index.isdecimal():
        found: yaml.Node = node.value[int(index)]
        return found
    return None


def _mappings(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _mappings(value)


def _check_keys(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _wrong(key.start_mark, "a key must be a word")
        if key.value in seen:
            raise _wrong(key.start_mark, f"{key.value!r} occurs twice")
        seen.add(key.value)


def _wrong(mark: yaml.Mark | None, problem: str) -> InvalidHooksError:
    return InvalidHooksError(f"line {mark.line + 1 if mark else 1}: {problem}")
