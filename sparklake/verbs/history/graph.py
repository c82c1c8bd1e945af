"""A history as lanes: drawn line by line, or as an SVG picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparklake.errors import InvalidInputError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ports import BranchState, TagInfo
from sparklake.graveler.times import text_of_second
from sparklake.stores.objects.local.files import whole_file
from sparklake.verbs.history.picture import svg


@dataclass(frozen=True, slots=True)
class Drawing:
    """The drawing of one commit: next to its lines, and below them."""

    lane: int
    node: str
    beside: str
    links: tuple[str, ...]


@dataclass(slots=True)
class Lanes:
    r"""The lanes of the remaining commits, each commit once. None is a free lane.

    A merge opens a lane for its second parent. Two lanes join at their common commit:

        *    merge
        |-\
        | *  on the branch
        * |  on main
        |-/
        *    the start of the branch
    """

    _lanes: list[str | None] = field(default_factory=list)

    def draw(self, commit_id: str, parents: Sequence[str]) -> Drawing:
        """Draw the next commit. None of its children may follow."""
        at = self._place(commit_id)
        node = self._line({at: "*"})
        beside = self._line({} if parents else {at: " "})
        first, *others = dict.fromkeys(parents) if parents else [None]
        links = [self._join(at, each) for each in others if each is not None]
        if first in self._lanes and first is not None:
            links.append(self._meet(at, self._lanes.index(first), first))
        else:
            self._lanes[at] = first
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        return Drawing(at, node, beside, tuple(links))

    def places(self) -> dict[str, int]:
        """Return the lane of each remaining commit."""
        return {each: lane for lane, each in enumerate(self._lanes) if each is not None}

    def _place(self, commit_id: str) -> int:
        """Return the lane of a commit, or a free lane if no child reserved one."""
        if commit_id in self._lanes:
            return self._lanes.index(commit_id)
        if None not in self._lanes:
            self._lanes.append(None)
        free = self._lanes.index(None)
        self._lanes[free] = commit_id
        return free

    def _join(self, at: int, parent: str) -> str:
        """Link a lane with the lane of a further parent, opened if needed."""
        is_new = parent not in self._lanes
        to = self._place(parent)
        return self._link(at, to, {to: "\\" if to > at else "/"} if is_new else {})

    def _meet(self, one: int, other: int, parent: str) -> str:
        """Continue two lanes to a common parent in the left one. The right one ends."""
        left, right = sorted((one, other))
        link = self._link(left, right, {right: "/"})
        self._lanes[left], self._lanes[right] = parent, None
        return link

    def _link(self, one: int, other: int, ends: dict[int, str]) -> str:
        left, right = sorted((one, other))
        line = list(self._line(ends, free="-", between=(left, right)))
        for gap in range(2 * left + 1, 2 * right, 2):
            line[gap] = "-"
        return "".join(line)

    def _line(
        self, marks: dict[int, str], free: str = " ", between: tuple[int, int] = (0, 0)
    ) -> str:
        left, right = between
        cells = (
            marks.get(at) or ("|" if lane is not None else free if left < at < right else " ")
            for at, lane in enumerate(self._lanes)
        )
        return " ".join(cells)


def names_of(states: Sequence[BranchState], tags: Sequence[TagInfo]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for state in states:
        names.setdefault(state.commit_id, []).append(state.name)
    for tag in tags:
        names.setdefault(tag.commit_id, []).append(f"tag: {tag.name}")
    return names


MOST_COMMITS = 2000
_SUBJECT_CHARACTERS = 72


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A commit in the picture: its lane, and its row in log order."""

    commit: Commit
    row: int
    lane: int
    names: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The first line of the commit message, shortened to fit."""
        line = next(iter(self.commit.message.strip().splitlines()), "")
        text = "".join(each if each.isprintable() else "?" for each in line)
        return text if len(text) <= _SUBJECT_CHARACTERS else f"{text[: _SUBJECT_CHARACTERS - 1]}…"

    @property
    def details(self) -> str:
        """The time and the committer of the commit."""
        moment = text_of_second(self.commit.creation_date)[: len("0000-00-00 00:00")]
        who = "".join(each if each.isprintable() else "?" for each in self.commit.committer)
        return f"{moment}  {who}".rstrip()


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """The line from a commit to a parent: one lane per row, starting at the commit."""

    child: str
    parent: str
    row: int
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HistoryGraph:
    """The layout of a history. Notebooks display it as a picture."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    def to_svg(self) -> str:
        """Return the picture as SVG."""
        return svg(self)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file named .svg."""
        if Path(path).suffix.lower() != ".svg":
            raise InvalidInputError(f"{str(path)!r} must end in .svg")
        if Path(path).is_symlink() or (Path(path).exists() and not Path(path).is_file()):
            raise InvalidInputError(f"{str(path)!r} is not a regular file: choose another name")
        try:
            with whole_file(Path(path)) as part:
                part.write_text(self.to_svg(), encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(f"cannot write {str(path)!r}: {error.strerror}") from error

    def _repr_svg_(self) -> str:
        return self.to_svg()


def history_graph(
    commits: Iterable[Commit], names: Mapping[str, Sequence[str]], sides: int | None = None
) -> HistoryGraph:
    """Return the layout of a log, with lines to at most `sides` parents each."""
    lanes, nodes = Lanes(), list[GraphNode]()
    places: list[dict[str, int]] = []
    links: list[tuple[int, str]] = []
    for row, each in enumerate(commits):
        if row == MOST_COMMITS:
            raise InvalidInputError(
                f"a picture can show at most {MOST_COMMITS} commits: set a limit"
            )
        parents = list(dict.fromkeys(each.parents[:sides]))
        lane = lanes.draw(each.id, parents).lane
        nodes.append(GraphNode(each, row, lane, tuple(names.get(each.id, ()))))
        places.append(lanes.places())
        links += [(row, parent) for parent in parents]
    rows: dict[str, int] = {node.commit.id: node.row for node in nodes}
    edges = [_edge(nodes, places, row, parent, rows.get(parent)) for row, parent in links]
    return HistoryGraph(tuple(nodes), tuple(edges))


def _edge(
    nodes: Sequence[GraphNode],
    places: Sequence[Mapping[str, int]],
    row: int,
    parent: str,
    end: int | None,
) -> GraphEdge:
    if end is None:
        way = [places[row][parent]]
    else:
        way = [places[at][parent] for at in range(row, end - 1)] + [nodes[end].lane]
    return GraphEdge(nodes[row].commit.id, parent, row, (nodes[row].lane, *way))
