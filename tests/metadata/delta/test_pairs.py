"""Pairs of changes that would make a wrong table if merged file by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sparklake.metadata.delta.actions import encode_actions as body_of
from sparklake.metadata.delta.delta_commits import DeltaCommit, parse_commit
from sparklake.metadata.delta.union.log_sides import LogSide, UnionSignature
from sparklake.metadata.delta.union.unite import united
from sparklake.metadata.union.conflicts import UnmergeableTableError
from tests.support.delta_model import PROTOCOL, add, by_writer, column, metadata, remove

Actions = Sequence[dict[str, Any]]
VECTORS = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}
WIDER = metadata(column("more"))


def side(*commits: Actions, **more: Any) -> LogSide:
    numbered = (DeltaCommit(number, by_writer(each)) for number, each in enumerate(commits, 1))
    return LogSide(tuple(numbered), **{"metadata": metadata(), "protocol": PROTOCOL, **more})


def union(base: LogSide, source: LogSide, dest: LogSide, *there: Actions) -> list[Any]:
    adds = [each["add"] for actions in there for each in actions if "add" in each]
    adds_by_key = {key: one for one in adds for key in DeltaCommit(0, ({"add": one},)).adds}
    source = replace(
        source,
        find_adds=lambda paths: {
            key: each for key, each in adds_by_key.items() if key.path in paths
        },
    )
    return united(base, source, dest, UnionSignature(2, "t")).commits


def repeated(*commits: Actions) -> list[Actions]:
    """Return commits as repeated in another log."""
    commits_after = union(side(), side(*commits), side([dict(add("any", "0"))]))
    return [parse_commit(1, body_of(each)).actions for each in commits_after]  # type: ignore[misc]


def by(mode: str, *actions: Any) -> Actions:
    return [{"commitInfo": {"operation": "WRITE", "operationParameters": {"mode": mode}}}, *actions]


def file(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {**add(path, "0")["add"], **more}}


def vector(name: str) -> dict[str, Any]:
    return {"deletionVector": {"storageType": "u", "pathOrInlineDv": name, "offset": 1}}


# --- rows twice -----------------------------------------------------------------------------------


def test_rows_appended_beside_an_overwrite_survive() -> None:
    removes = [remove("a"), remove("b")]
    replaced = by("Overwrite", *removes, file("new"))
    for source, dest in ((replaced, by("Append", file("c"))), (by("Append", file("c")), replaced)):
        (commit,) = union(side(), side(source), side(dest))
        assert commit[1:] == tuple(source[1:])


@pytest.mark.parametrize("words", ["Overwrite", "overwrite"])
def test_two_full_overwrites_of_an_empty_region_conflict(words: str) -> None:
    """A full overwrite counts as one of all partitions, whichever it wrote to."""
    one, other = by(words, file("a")), by(words, dict(add("p=1/b", "1")))
    with pytest.raises(UnmergeableTableError, match="both sides overwrote the table"):
        union(side(), side(one), side(other))
    # A third side, whose overwrite came by an earlier merge.
    with pytest.raises(UnmergeableTableError, match="both sides overwrote"):
        union(side(), side(one), side(*repeated(*repeated(other))))
    (info, *rest) = by(words, file("c"))
    info["commitInfo"]["operationParameters"]["isDynamicPartitionOverwrite"] = True
    assert union(side(), side([info, *rest]), side(other))
    with pytest.raises(
        UnmergeableTableError, match=r'both sides overwrote the partition {"p": "0"}'
    ):
        union(side(), side([info, *rest]), side(one))


def test_differently_escaped_paths_are_one_file() -> None:
    """Writers escape different characters in the paths of a log."""
    one, other = "p=%C3%BC/a%20b.parquet", "p=ü/a b.parquet"
    with pytest.raises(UnmergeableTableError, match=r"removed or rewrote files.*: p=ü/a b.parquet"):
        union(side(), side([remove(one), file("x")]), side([remove(other), file("y")]))


def test_one_file_with_two_deletion_vectors_conflicts() -> None:
    """As by a RESTORE of either side to another version."""
    with pytest.raises(UnmergeableTableError, match="both sides added the same files: a"):
        union(side(), side([file("a")]), side([file("a", **vector("one"))]))
    with pytest.raises(UnmergeableTableError, match="both sides added the same files: a"):
        union(side(), side([file("a", **vector("one"))]), side([file("a")]))
    # After it was marked anew, it is another one; and one that is gone again is in no one's way.
    marked = [remove("a"), file("a", **vector("one"))]
    assert union(side(), side(marked), side([file("b")]))
    assert union(
        side(),
        side([file("a")]),
        side([file("a", **vector("one"))], [{"remove": {"path": "a", **vector("one")}}]),
    )


# --- metadata, protocol and domains ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["delta.enableChangeDataFeed", "delta.appendOnly"])
def test_removed_rows_conflict_with_a_property_that_records_or_forbids_them(name: str) -> None:
    ruled = metadata(**{name: "true"})
    altered = side([{"metaData": ruled}], metadata=ruled)
    for source, dest in ((altered, side([remove("a")])), (side([remove("a")]), altered)):
        with pytest.raises(UnmergeableTableError, match=f"{name}.* on both sides, and merge again"):
            union(side(), source, dest)
    assert union(side(), altered, side([file("a")]))
    # As the message says.
    both = side([remove("a")], [{"metaData": ruled}], metadata=ruled)
    assert len(union(side(), both, altered)) == 1
    assert union(side(), altered, both) == []


def test_deletion_vectors_require_a_protocol_that_supports_them() -> None:
    start = side(protocol=VECTORS)
    marked = side([remove("a"), file("a", **vector("one"))], protocol=VECTORS)
    dropped = side([{"protocol": PROTOCOL}], protocol=PROTOCOL)
    with pytest.raises(UnmergeableTableError, match="source's table has a lower minReaderVersion"):
        union(start, dropped, marked)
    with pytest.raises(UnmergeableTableError, match="dest's table has a lower minReaderVersion"):
        union(start, marked, dropped)


def test_a_protocol_change_is_combined_with_a_schema_change() -> None:
    upgraded = side([{"protocol": VECTORS}], protocol=VECTORS)
    widened = side([{"metaData": WIDER}], metadata=WIDER)
    for source, dest, kind in ((upgraded, widened, "protocol"), (widened, upgraded, "metaData")):
        (commit,) = union(side(), source, dest)
        assert [*commit[1]] == [kind]
    both = side([{"metaData": WIDER, "protocol": VECTORS}], metadata=WIDER, protocol=VECTORS)
    assert union(side(), both, side([file("a")]))


def test_a_domain_requires_its_columns() -> None:
    clustered = [{"domainMetadata": {"domain": "delta.clustering", "configuration": "more"}}]
    start, narrow = side(metadata=WIDER), side([{"metaData": metadata()}])
    for source, dest in (
        (side(clustered, metadata=WIDER), narrow),
        (narrow, side(clustered, metadata=WIDER)),
    ):
        with pytest.raises(UnmergeableTableError, match="dropped the column 'more'"):
            union(start, source, dest)
    (commit,) = union(side(), side(clustered), side([file("a")]))
    assert commit[1:] == tuple(clustered)


# --- commits that dest has in another order -------------------------------------------------------


@pytest.mark.parametrize(
    ("action_of", "words"),
    [
        (lambda at: {"txn": {"appId": "s", "version": at}}, "same streaming application, 's'"),
        (lambda at: {"domainMetadata": {"domain": "d", "configuration": str(at)}}, "domain, 'd'"),
    ],
)
def test_stream_and_domain_versions_never_decrease(action_of: Any, words: str) -> None:
    first, second, third = ([action_of(at), file(f"f{at}")] for at in range(3))
    with pytest.raises(UnmergeableTableError, match=words):
        union(side(), side(first, second), side(*repeated(second)))
    (commit,) = union(side(), side(first, second), side(*repeated(first)))
    assert commit[1:] == tuple(second)
    (commit,) = union(side(first), side(first, second), side(first, [file("x")]))
    assert commit[1:] == tuple(second)
    # Of another one there is no harm.
    other = [{"txn": {"appId": "other", "version": 1}}]
    assert len(union(side(), side(other, second, third), side(*repeated(second)))) == 2


def test_a_reverted_schema_change_of_source_is_not_repeated() -> None:
    wider, back = [{"metaData": WIDER}], [{"metaData": metadata()}]
    (commit,) = union(side(), side(wider, back), side(*repeated(back)))
    assert len(commit) == 1
    assert len(union(side(), side(wider, back), side([file("a")]))) == 2


# --- undoing --------------------------------------------------------------------------------------


def test_restored_rows_must_fit_the_current_table() -> None:
    deleted, start = [remove("a")], [file("a")]
    ruled = metadata(**{"delta.constraints.small": "id < 3"})
    dest = side(deleted, [{"metaData": ruled}], metadata=ruled)
    with pytest.raises(UnmergeableTableError, match=r"delta\.constraints"):
        union(side(deleted), side(), dest, start)
    (commit,) = union(side(deleted), side(), side(deleted, [file("b")]), start)
    assert commit[1]["add"]["path"] == "a"
    # What only leaves has nothing to fit.
    assert union(
        side([file("b")]), side(), side([file("b")], [{"metaData": ruled}], metadata=ruled)
    )


def test_restored_rows_with_deletion_vectors_require_their_protocol() -> None:
    marked = file("a", **vector("one"))
    deleted = [{"remove": {"path": "a", **vector("one")}}]
    dest = side(deleted, [{"protocol": PROTOCOL}])
    with pytest.raises(UnmergeableTableError, match="dest's table has a lower minReaderVersion"):
        union(side(deleted, protocol=VECTORS), side(protocol=VECTORS), dest, [marked])
