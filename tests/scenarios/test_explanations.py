"""What a verb says that it would do: it is what it does, and saying it changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Lake, Repository
from sparklake.engine.explanation import Explanation, SideLoad
from sparklake.errors import NoChangesError
from sparklake.graveler.ports import LayerKind
from sparklake.testing.lakes import commit_all, put_all, stage_table
from sparklake.verbs.base import staging as staged
from tests.support.lakes import fingerprint

OBJECTS: dict[str, bytes | None] = {f"k/{number:03d}": b"%d" % number for number in range(200)}


@pytest.fixture
def repo(small_lake: Lake, tmp_path: Path) -> Repository:
    made = small_lake.create_repository("lake", str(tmp_path / "namespace"), range_records=8)
    commit_all(made.branch("main"), OBJECTS, "base")
    return made


def counted(said: Explanation) -> tuple[int, int, int]:
    return said.copied, said.opened, said.records


def sides(said: Explanation) -> list[tuple[str, int, int]]:
    return [(each.name, each.ranges, each.records) for each in said.sides]


def check_sums(said: Explanation) -> None:
    assert said.records == sum(each.records for each in said.sides)
    assert said.bytes == sum(each.bytes for each in said.sides)
    assert said.bytes > 20 * said.records


def test_a_commit_opens_what_it_said(small_lake: Lake, repo: Repository) -> None:
    main, tree = repo.branch("main"), repo.tree("main")
    put_all(main, {"k/000": b"x", "k/001": b"x", "k/150": None})
    main.stage(stage_table([{"path": "k/199", "size": 1, "address": "data/x", "checksum": "c"}]))
    touched = {
        each.id
        for each in tree.ranges
        for path in (b"k/000", b"k/001", b"k/150", b"k/199")
        if each.min_key <= path <= each.max_key
    }
    records = sum(each.count for each in tree.ranges if each.id in touched)
    before = fingerprint(small_lake)
    said = main.plan()
    assert fingerprint(small_lake) == before
    assert (said.verb, said.engine) == ("commit", "local")
    assert said.reason.startswith(f"{records + 4} records to read, ")
    assert counted(said) == (len(tree.ranges) - len(touched), len(touched) + 1, records + 4)
    assert sides(said) == [
        ("committed", len(touched), records),
        ("layer 1", 1, 1),
        ("layer 2", 0, 3),
    ]
    assert said.tasks == 1
    check_sums(said)
    with recorded_reads() as reads:
        main.commit("m")
    assert touched <= {*reads}


def test_many_rows_are_explained_without_writing_a_run(
    small_lake: Lake, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "INLINE_ROWS", 2)
    main = repo.branch("main")
    put_all(main, {f"k/{number:03d}": b"x" for number in range(5)})
    before = fingerprint(small_lake)
    said = main.plan()
    assert sides(said)[1] == ("layer 1", 0, 5)
    assert fingerprint(small_lake) == before
    (layer,) = main.state.layers
    assert (layer.kind, layer.sealed) == (LayerKind.ROWS, False)


def test_a_commit_of_nothing_opens_nothing(repo: Repository) -> None:
    said = repo.branch("main").plan()
    assert (*counted(said), said.tasks, said.sides) == (len(repo.tree("main").ranges), 0, 0, 0, ())


def test_a_merge_opens_what_it_said(small_lake: Lake, repo: Repository) -> None:
    repo.create_branch("dev", "main")
    commit_all(repo.branch("dev"), {"k/000": b"dev", "k/100": b"dev"}, "dev")
    base = repo.tree("main")
    fast = repo.plan_merge("dev", "main")
    assert counted(fast) == (len(repo.tree("dev").ranges), 0, 0)
    commit_all(repo.branch("main"), {"k/001": b"main"}, "main")
    trees = {name: repo.tree(name) for name in ("dev", "main")}
    before = fingerprint(small_lake)
    said = repo.plan_merge("dev", "main")
    assert fingerprint(small_lake) == before
    assert said.verb == "merge"
    assert [each.name for each in said.sides] == ["base", "source", "dest"]
    with recorded_reads() as reads:
        repo.merge("dev", "main")
    known = {each.id for tree in (base, *trees.values()) for each in tree.ranges}
    opened = {*reads} & known
    assert said.opened == len(opened)
    assert said.copied == len(base.ranges) - said.sides[0].ranges
    check_sums(said)


def test_a_merge_that_would_be_refused_is_refused_at_once(repo: Repository) -> None:
    repo.create_branch("dev", "main")
    with pytest.raises(NoChangesError):
        repo.plan_merge("dev", "main")
    with pytest.raises(NoChangesError):
        repo.plan_merge("dev", "dev")
    commit_all(repo.branch("dev"), {"k/000": b"dev"}, "dev")
    repo.branch("main").put("k/000", b"staged")
    assert repo.plan_merge("dev", "main").opened == 0  # Staged changes are no part of the plan.


def test_rows_say_what_they_will_read(repo: Repository) -> None:
    repo.create_branch("dev", "main")
    commit_all(repo.branch("dev"), {"k/000": b"dev"}, "dev")
    listing = repo.objects("main")
    tree = repo.tree("main")
    assert listing.explain() == Explanation(
        verb="ls",
        engine="local",
        reason=listing._job.runners.choice(200).reason,
        copied=0,
        opened=len(tree.ranges),
        records=200,
        bytes=sum(each.size for each in tree.ranges),
        tasks=1,
        sides=(
            SideLoad("committed", len(tree.ranges), 200, sum(each.size for each in tree.ranges)),
        ),
    )
    assert repo.objects("main", "k/00").explain().records < 40
    two_way, three_way = repo.diff("main", "dev"), repo.diff("main", "dev", three_way=True)
    for rows, names in ((two_way, ["left", "right"]), (three_way, ["base", "source", "dest"])):
        said = rows.explain()
        assert (said.verb, [each.name for each in said.sides]) == ("diff", names)
        with recorded_reads() as reads:
            assert len(list(rows)) == 1
        assert len({*reads}) == said.opened
        check_sums(said)
    repo.branch("dev").put("k/001", b"staged")
    staged_rows = repo.branch("dev").diff().explain()
    assert [each.name for each in staged_rows.sides] == ["committed", "layer 1"]
    assert repo.diff("main", "main").explain().sides == ()
