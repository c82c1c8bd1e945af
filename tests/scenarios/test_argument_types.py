"""Arguments of wrong types: every verb refuses them by a named error, before it begins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import InvalidInputError
from sparklake.graveler.commits import Commit
from sparklake.testing.lakes import commit_all, memory_lake
from sparklake.verbs.refs.settings import LiveSettings
from tests.support.cases import for_each
from tests.support.lakes import fingerprint

WRONG: dict[str, tuple[Any, ...]] = {
    "str": (None, 5, b"x", ["a"], {"a": 1}, object()),
    "str | None": (5, b"x", ["a"], {"a": 1}, object()),
    "str | Path": (None, 5, b"x", ["a"]),
    "int": (None, "1", b"x", 1.5, [1]),
    "int | None": ("1", b"x", 1.5, [1]),
    "datetime": (None, "2024-01-01", 5, timedelta(1)),
    "datetime | None": ("2024-01-01", 5, timedelta(1)),
    "timedelta": (None, "1d", 5),
    "timedelta | None": ("1d", 5),
    "Mapping[str, str]": (None, 5, "x", b"x", ["a"], {"a": 1}, {1: "a"}, {"a": None}),
    "Mapping[str, str] | None": (5, "x", b"x", ["a"], {"a": 1}, {1: "a"}, {"a": None}),
    "Mapping[str, int] | None": (5, "x", ["a"]),
    "Sequence[str]": (None, 5, b"x", {"a": 1}, object()),
    "Sequence[str] | None": (5, b"x", {"a": 1}, object()),
    "Iterable[str]": (None, 5, b"x", {"a": 1}),
    "Iterable[Action | str]": (None, 5, b"x"),
    "Iterable[tuple[str, str]]": (None, 5, "x", b"x", ["a"], [None], [("a",)]),
    "Objects": (None, 5, "x", b"x", ["a"], [None]),
}
RIGHT: dict[str, Any] = {
    "str": "x",
    "str | Path": "x",
    "int": 1,
    "datetime": datetime(2024, 1, 1, tzinfo=timezone.utc),
    "timedelta": timedelta(1),
    "Mapping[str, str]": {},
    "Sequence[str]": ["x"],
    "Iterable[str]": ["x"],
    "Iterable[tuple[str, str]]": [("x", "y")],
    "Objects": {},
}
Case = tuple[Callable[..., Any], str, tuple[Any, ...], dict[str, Any]]


def verbs() -> Iterator[tuple[str, Callable[..., Any]]]:
    for noun in (Lake, Repository, Branch, LiveSettings):
        for name, verb in inspect.getmembers(noun, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{noun.__name__}.{name}", verb


def cases() -> Iterator[Any]:
    for title, verb in verbs():
        _, *parameters = inspect.signature(verb).parameters.values()
        needed = {
            each.name: RIGHT.get(each.annotation)
            for each in parameters
            if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
        }
        for each in parameters:
            for wrong in WRONG.get(each.annotation, ()):
                if each.kind is each.VAR_POSITIONAL:
                    given: tuple[Any, ...] = (*needed.values(), wrong)
                    case: Case = (verb, each.name, given, {})
                else:
                    case = (verb, each.name, (), {**needed, each.name: wrong})
                yield pytest.param(case, id=f"{title} {each.name} {type(wrong).__name__}")


@for_each("case", list(cases()))
def test_every_verb_refuses_what_has_a_wrong_type(case: Case) -> None:
    verb, name, given, words = case
    with pytest.raises(InvalidInputError, match=f"'{name}' of {verb.__name__} must be an? "):
        # Nothing of the verb's own object is asked before.
        verb(object(), *given, **words)


@pytest.mark.parametrize(
    "verb",
    [
        lambda main: main.commit(None),
        lambda main: main.commit("m", None, {"k": 1}),
        lambda main: main.commit("m", metadata="k=v"),
        lambda main: main.commit("m", 5),
        lambda main: main.put("k", b"", {"k": None}),
        lambda main: main.revert("main", message=b"m"),
    ],
)
def test_nothing_has_changed_then(verb: Callable[[Branch], Commit], tmp_path: Path) -> None:
    lake = memory_lake()
    repo = lake.create_repository("lake", str(tmp_path / "ns"))
    main = repo.branch("main")
    commit_all(main, {"a": b"1"}, "one")
    main.put("b", b"1")
    before = fingerprint(lake)
    with pytest.raises(InvalidInputError):
        verb(main)
    assert fingerprint(lake) == before


def test_what_was_right_stays_right(tmp_path: Path) -> None:
    lake = memory_lake()
    repo = lake.create_repository("lake", tmp_path.joinpath("ns").as_uri(), metadata=None)
    main = repo.branch("main")
    commit_all(main, {"a": b"1", "b": b"1"}, "one")
    assert main.remove_many(path for path in ["a", "b"]) == 2  # type: ignore[arg-type]
    assert main.commit("m", None, None, False, None).metadata == {}
    assert [each.message for each in repo.log("main", 1)] == ["m"]
