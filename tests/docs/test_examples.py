"""The examples in docstrings of the names that are used most run as they are shown."""

from __future__ import annotations

import doctest
import runpy
from pathlib import Path
from unittest import mock

import pytest

import sparklake
from campaigns.postgres import fresh_database
from sparklake import Branch, Lake, Repository
from sparklake.testing.lakes import memory_lake
from tests.docs.scene import SETUPS

WITH_EXAMPLES = {
    each.name: each
    for owner, name in [
        (sparklake, "connect"),
        *((Lake, name) for name in dir(Lake)),
        *((Repository, name) for name in dir(Repository)),
        *((Branch, name) for name in dir(Branch)),
    ]
    if not name.startswith("_")
    for each in [
        doctest.DocTestParser().get_doctest(
            getattr(owner, name).__doc__ or "", {}, f"{owner.__name__}.{name}", None, None
        )
    ]
    if each.examples
}

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


ON_SPARK = {"Lake.sql"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.spark] if name in ON_SPARK else [])
        for name in sorted(WITH_EXAMPLES)
    ],
)
def test_an_example_runs(
    name: str,
    tmp_path: Path,
    server_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if name in ON_SPARK:
        request.getfixturevalue("spark")
    # Only `connect` opens a lake itself. All other examples change one in memory.
    if name == "sparklake.connect":
        with fresh_database(server_dsn) as dsn:
            monkeypatch.setenv("SPARKLAKE_DSN", dsn)
            check(name, {"sparklake": sparklake})
        return
    lake = memory_lake()
    with mock.patch.object(sparklake, "connect", return_value=lake):
        monkeypatch.setattr("sys.argv", ["example-lake", str(tmp_path / "lake")])
        runpy.run_path(str(SETUPS / "example-lake"), run_name="__main__")
    repo = lake.repository("lake")
    names = {"lake": lake, "repo": repo, "folder": tmp_path}
    check(name, names | {"main": repo.branch("main"), "branch": repo.branch("dev")})


def check(name: str, names: dict[str, object]) -> None:
    example = WITH_EXAMPLES[name]
    example.globs.update(names)
    shown: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=shown.append)
    assert "".join(shown) == ""


def test_the_names_that_are_used_most_have_examples() -> None:
    assert len(WITH_EXAMPLES) >= 20
