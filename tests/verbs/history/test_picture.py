"""Histories as pictures: every commit and every edge is there once, in the terminal's lanes."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake import Commit, Lake, Repository
from sparklake.errors import InvalidInputError
from sparklake.graveler.commits import new_commit
from sparklake.graveler.ids import EMPTY_META_RANGE
from sparklake.verbs.history.graph import MOST_COMMITS, HistoryGraph, Lanes, history_graph
from tests.support.graphs import START, grow

EVIL = '<script>alert("1")</script> & $x_1$ \x1b[31m né'


@st.composite
def logs(draw: st.DrawFn) -> list[Commit]:
    """Return commits, each with up to three of the later ones as its parents, children first."""
    made: list[Commit] = []
    for number in range(draw(st.integers(1, 12))):
        parents = st.lists(st.sampled_from(made), max_size=3, unique_by=id) if made else st.just([])
        made.append(a_commit(draw(parents), f"{number}"))
    return made[::-1]


def a_commit(parents: list[Commit], message: str) -> Commit:
    return new_commit(
        parents=parents,
        committer="ann",
        message=message,
        creation_date=START,
        meta_range_id=EMPTY_META_RANGE,
    )


@given(logs(), st.sampled_from([None, 1, 0]))
def test_every_commit_and_every_edge_is_laid_out_once(
    commits: list[Commit], sides: int | None
) -> None:
    graph = history_graph(commits, {}, sides)
    assert [node.commit for node in graph.nodes] == commits
    assert [node.row for node in graph.nodes] == [*range(len(commits))]
    lanes = Lanes()
    drawn = [lanes.draw(each.id, each.parents[:sides]) for each in commits]
    assert [node.lane for node in graph.nodes] == [each.node.index("*") // 2 for each in drawn]
    found = [(edge.child, edge.parent) for edge in graph.edges]
    assert found == [(each.id, parent) for each in commits for parent in each.parents[:sides]]
    nodes = {node.commit.id: node for node in graph.nodes}
    for edge in graph.edges:
        child, parent = nodes[edge.child], nodes[edge.parent]
        assert (edge.row, edge.lanes[0]) == (child.row, child.lane)
        assert (edge.row + len(edge.lanes) - 1, edge.lanes[-1]) == (parent.row, parent.lane)
        # No way leads through another commit.
        for at, lane in enumerate(edge.lanes[1:-1], start=1):
            assert graph.nodes[edge.row + at].lane != lane


def test_a_parent_that_is_not_shown_is_led_to(small_lake: Lake, folder: Path) -> None:
    repo = a_repository(small_lake, folder)
    grow(repo, {"a": [], "b": ["a"], "c": ["b"]})
    graph = repo.graph("c", limit=2)
    assert [node.names for node in graph.nodes] == [("c",), ("b",)]
    assert [(edge.row, edge.lanes) for edge in graph.edges] == [(0, (0, 0)), (1, (0, 0))]


def test_a_picture_has_a_limit() -> None:
    commits = [a_commit([], f"{number}") for number in range(MOST_COMMITS + 1)]
    assert len(history_graph(commits[1:], {}).nodes) == MOST_COMMITS
    with pytest.raises(InvalidInputError, match="at most 2000 commits"):
        history_graph(commits, {})


def test_a_picture_needs_a_name_that_says_what_it_is(tmp_path: Path) -> None:
    graph = HistoryGraph((), ())
    for name in ("graph.pdf", "graph"):
        with pytest.raises(InvalidInputError, match=r"must end in \.svg"):
            graph.save(tmp_path / name)


def test_a_picture_is_saved_as_svg(small_lake: Lake, folder: Path, tmp_path: Path) -> None:
    repo = a_repository(small_lake, folder)
    first = a_commit([], EVIL)
    second = a_commit([first], "plain")
    graph = history_graph([second, first], {second.id: ["main", "tag: <v1>"]})
    root = ElementTree.fromstring(graph._repr_svg_())
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    for wanted in (f"commit-{first.id}", f"commit-{second.id}", f"edge-{second.id}-{first.id}"):
        assert ids.count(wanted) == 1
    texts = ["".join(each.itertext()).strip() for each in root.iter() if each.tag.endswith("text")]
    assert '<script>alert("1")</script> & $x_1$ ?[31m né' in texts
    assert {"main", "tag: <v1>", "plain"} <= {*texts}
    assert not [each for each in root.iter() if each.tag.endswith("script")]
    assert graph.to_svg() == graph.to_svg()
    graph.save(tmp_path / "h.SVG")
    assert (tmp_path / "h.SVG").read_text(encoding="utf-8") == graph.to_svg()
    with pytest.raises(InvalidInputError, match="cannot write"):
        graph.save(tmp_path / "none" / "h.svg")
    (tmp_path / "link.svg").symlink_to(tmp_path / "h.SVG")
    with pytest.raises(InvalidInputError, match="is not a regular file"):
        graph.save(tmp_path / "link.svg")
    assert (tmp_path / "h.SVG").read_text(encoding="utf-8") == graph.to_svg()
    assert not list(tmp_path.glob("*.part"))
    ElementTree.fromstring(repo.graph("main").to_svg())


def a_repository(lake: Lake, folder: Path) -> Repository:
    return lake.create_repository(uuid4().hex, str(folder / "lake"))
