"""A history as an SVG or PNG picture, with the lanes of the terminal's drawing."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparklake.errors import InvalidInputError
from sparklake.graveler.commits import Commit
from sparklake.graveler.times import text_of_second
from sparklake.verbs.history.lanes import Lanes

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
        """Return the picture as SVG; without the extra `graph`, raise MissingDependencyError."""
        return self._drawn("svg").decode()

    def to_png(self) -> bytes:
        """Return the picture as PNG; without the extra `graph`, raise MissingDependencyError."""
        return self._drawn("png")

    def save(self, path: str | Path) -> None:
        """Write the picture to a file named .svg or .png."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".svg", ".png"):
            raise InvalidInputError(f"{str(path)!r} must end in .svg or .png")
        try:
            Path(path).write_bytes(self._drawn(suffix[1:]))
        except OSError as error:
            raise InvalidInputError(f"cannot write {str(path)!r}: {error.strerror}") from error

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _drawn(self, form: str) -> bytes:
        # Lazy import: it loads matplotlib.
        from sparklake.verbs.history.picture import draw

        page = io.BytesIO()
        draw(self, page, form)
        return page.getvalue()


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
