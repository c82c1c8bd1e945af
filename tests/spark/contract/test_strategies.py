"""Strategies inside of Spark's tasks: what they decide is what they decide in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Branch, MergeConflictError, Repository
from sparklake.errors import StrategyError
from sparklake.testing.lakes import contents

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklake.strategies import Objects

pytestmark = pytest.mark.spark

NAMES = [f"{folder}/{number:02d}.csv" for folder in "abcd" for number in range(20)]
BY_MODULE = "sparklake.strategies.built_in:larger_wins"

Twins = tuple[Repository, Repository]


def parted(repository: Repository) -> Branch:
    """Make main and dev, which both change all objects; dev's are the longer ones."""
    main = repository.branch("main")
    commit(main, "base")
    commit(repository.create_branch("dev", "main"), "from the source")
    commit(main, "dest")
    return main


def commit(branch: Branch, text: str) -> None:
    for name in NAMES:
        branch.put(name, f"{text}\n{name}".encode())
    branch.commit(text)


@pytest.mark.usefixtures("small_tasks")
def test_strategies_decide_alike_here_and_on_spark(make_twins: Twins) -> None:
    mark = b" and "

    def both(conflicts: pa.RecordBatch, objects: Objects) -> list[Any]:
        rows = conflicts.to_pylist()
        texts = [
            [objects.read(row[side]["address"]) for side in ("source", "dest")] for row in rows
        ]
        return [objects.write(mark.join(pair), "text/plain") for pair in texts]

    rules = [("a/**", both), ("b/*", BY_MODULE), ("c/**", "keep-both")]
    trees = []
    for repository in make_twins:
        parted(repository)
        made = repository.merge("dev", "main", "union-lines", rules=rules)
        trees.append(made.meta_range_id)
        found = contents(repository, "main")
        assert found["a/07.csv"] == b"from the source\na/07.csv and dest\na/07.csv"
        assert found["b/07.csv"] == b"from the source\nb/07.csv"
        assert found["c/07.source.csv"] == b"from the source\nc/07.csv"
        assert found["d/07.csv"] == b"dest\nd/07.csv\nfrom the source\n"
        assert len(found) == len(NAMES) + 20
    assert trees[0] == trees[1]


def test_a_strategy_that_fails_on_spark_moves_nothing(repo: Repository) -> None:
    def failing(conflicts: pa.RecordBatch, objects: Objects) -> list[str]:
        raise ValueError("no idea\nwhat to do")

    main = parted(repo)
    head = main.head
    with pytest.raises(StrategyError, match=r"failing', called for 'a/00.csv'.*no idea"):
        repo.merge("dev", "main", failing)
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main", BY_MODULE, rules={"d/**": "none"})
    assert [row.path for row in raised.value.conflicts] == NAMES[60:]
    assert main.head == head
