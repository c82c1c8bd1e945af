"""`show` and `stat` print names and values as two columns."""

from __future__ import annotations

import pytest

from tests.cli.running import Scene, ok


@pytest.mark.parametrize("length", [1, 8, 9, 21, 22, 40])
def test_metadata_keys_of_any_length_end_before_their_values(scene: Scene, length: int) -> None:
    key = "k" * length
    ok("put", "-", scene.uri("main", "a"), "--meta", f"{key}=value", stdin=b"1")
    ok("commit", scene.uri("main"), "-m", "one\n\nmore", "--meta", f"{key}=value")
    shown = ok("show", scene.uri("main")).splitlines()
    for lines in (shown, ok("stat", scene.uri("main", "a")).splitlines()):
        (at,) = {each.index("value") for each in lines if each.endswith("value")}
        assert f"meta {key}".ljust(at) + "value" in lines
        assert {each[at - 1] for each in lines if len(each) >= at} == {" "}
        assert all(each[at] != " " for each in lines if len(each) > at)
    assert shown[-1] == f"{'':{at}}more"
