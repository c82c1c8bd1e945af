"""Newline-delimited text, united by lines."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sparklake.strategies.built_in import merged_lines
from tests.support.cases import for_each

lines = st.lists(st.sampled_from([b"a", b"b", b"", b"c\r"]), max_size=6)


def text(of: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in of)


@for_each(
    ("base", "source", "dest", "merged"),
    [
        (b"1\n2\n", b"1\n2\n3\n", b"1\n2\n4\n", b"1\n2\n4\n3\n"),
        (b"1\n2\n", b"2\n", b"1\n2\n3\n", b"2\n3\n"),
        (b"1\n2\n", b"2\n", b"1\n", b""),
        (b"", b"a\nb\n", b"b\nc\n", b"b\nc\na\n"),
        (b"h\n", b"h\nx", b"h\ny", b"h\ny\nx\n"),
        (b"x\nx\n", b"x\n", b"x\nx\nx\n", b"x\nx\n"),
        (b"", b"x\n", b"x\nx\n", b"x\nx\n"),
        (b"", b"x\nx\n", b"x\n", b"x\nx\n"),
        (b"", b"\n", b"a\n", b"a\n\n"),
    ],
)
def test_lines_are_merged(base: bytes, source: bytes, dest: bytes, merged: bytes) -> None:
    assert merged_lines(base, source, dest) == merged


@given(lines, lines, lines)
def test_each_line_is_repeated_by_its_merged_count(
    base: list[bytes], source: list[bytes], dest: list[bytes]
) -> None:
    merged = merged_lines(text(base), text(source), text(dest))
    counts = Counter(merged.split(b"\n")[:-1])
    assert merged == b"" or merged.endswith(b"\n")
    assert counts == Counter(merged_lines(text(base), text(dest), text(source)).split(b"\n")[:-1])
    for line in {*base, *source, *dest}:
        before, theirs, ours = (each.count(line) for each in (base, source, dest))
        changes = sorted((theirs - before, ours - before))
        one_sided = 0 in changes or changes[0] < 0 < changes[1]
        # Opposite changes add up; of equal directions the larger one is what both want.
        change = sum(changes) if one_sided else max(changes, key=abs)
        assert counts[line] == before + change


@given(lines, lines)
def test_one_unchanged_side_gives_the_other_side(base: list[bytes], other: list[bytes]) -> None:
    assert merged_lines(text(base), text(base), text(other)) == text(other)
    result = merged_lines(text(base), text(other), text(base))
    assert sorted(result.split(b"\n")) == sorted(text(other).split(b"\n"))


@given(lines, lines)
def test_equal_changes_are_applied_once(base: list[bytes], both: list[bytes]) -> None:
    assert merged_lines(text(base), text(both), text(both)) == text(both)
