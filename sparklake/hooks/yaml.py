"""The YAML of hook files: plain data with line numbers."""

from __future__ import annotations

import re
from typing import Any

import yaml

from sparklake.errors import InvalidHooksError
from sparklake.uri import is_utf8

_STEP = re.compile(r"\.([\w-]+)|\[(\d+|\.\.\.)\]")
_MAX_DEPTH = 32
_SHOWN = 60
_BOOL = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A YAML 1.2 loader for plain data: `on` is a string, only `true` and `false` are booleans."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (like the base class)
        first: [each for each in resolvers if each[0] != _BOOL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return a node's data. Python's own errors, such as for `!!bool x`, get a message."""
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception as error:
            kind = node.tag.rpartition(":")[2]
            text = repr(str(node.value)[:_SHOWN])
            problem = f"{text} is not a valid {kind}: quote it if it is a string"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


_Loader.add_implicit_resolver(_BOOL, re.compile("true|false"), list("tf"))


def parsed(text: str) -> tuple[Any, yaml.Node]:
    try:
        _check_shape(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidHooksError("line 1: the file is empty")
        _check_keys(node)
        return loader.construct_document(node), node
    except InvalidHooksError:
        raise
    except yaml.MarkedYAMLError as error:
        raise _wrong(error.problem_mark, error.problem or "no YAML") from None
    except Exception as error:  # noqa: BLE001  (the scanner raises OverflowError for "\UFFFFFFFF")
        raise InvalidHooksError(f"it is not YAML: {error}".splitlines()[0]) from None


def _check_shape(text: str) -> None:
    """Reject deep nesting, which takes time, aliases, which multiply, and invalid UTF-8."""
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
    for name, index in _STEP.findall(path):
        inner = None
        if isinstance(node, yaml.MappingNode) and name:
            inner = next((value for key, value in node.value if key.value == name), None)
        elif isinstance(node, yaml.SequenceNode) and index.isdecimal():
            inner = node.value[int(index)]
        if inner is None:
            break
        node = inner
    line: int = node.start_mark.line + 1
    return line


def _check_keys(node: yaml.Node) -> None:
    """Reject duplicate and non-string keys in all mappings."""
    keys: set[str] = set()
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _wrong(key.start_mark, "a key must be a word")
            if key.value in keys:
                raise _wrong(key.start_mark, f"{key.value!r} occurs twice")
            keys.add(key.value)
        for _, value in node.value:
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_keys(value)


def _wrong(mark: yaml.Mark | None, problem: str) -> InvalidHooksError:
    return InvalidHooksError(f"line {mark.line + 1 if mark else 1}: {problem}")
