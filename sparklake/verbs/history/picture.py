"""The drawing of a history with matplotlib."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

from sparklake.extras import importing

if TYPE_CHECKING:
    from sparklake.verbs.history.graph import GraphEdge, GraphNode, HistoryGraph

# All lengths are in points.
_ROW, _LANE, _MARGIN = 26.0, 18.0, 16.0
_FONT, _SMALL = 10.0, 8.0
_GAP = 8.0
_DETAILS = 150.0
_CHARACTER = 6.3
_INCH = 72.0
_DPI = 144

_PALETTE = ("#2f6fdb", "#d9603b", "#2e9d62", "#8a56c9", "#c2922a", "#1c9bb0", "#cf4a86", "#6b7280")
_INK, _PALE = "#1f2933", "#7b8794"

# Typed Any because the types of settings exist only where matplotlib is installed.
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sparklake",
    "font.family": "DejaVu Sans",
}


def draw(graph: HistoryGraph, page: BinaryIO, form: str) -> None:
    """Write a picture as SVG or PNG. The output is deterministic."""
    with importing("matplotlib", "graph"):
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    lanes = 1 + max((lane for each in graph.edges for lane in each.lanes), default=0)
    left = 2 * _MARGIN + _LANE * (lanes - 1) + _GAP
    text = max((_text_width(each) for each in graph.nodes), default=0.0)
    width = left + text + _DETAILS + 2 * _MARGIN
    height = _ROW * max(len(graph.nodes), 1) + 2 * _MARGIN
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width / _INCH, height / _INCH), facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        # Straight lines are drawn on top of lines that join them.
        for each in sorted(graph.edges, key=_turns, reverse=True):
            _draw_edge(axes, each)
        for node in graph.nodes:
            _draw_node(axes, node)
            _draw_texts(axes, node, left, width - _DETAILS - _MARGIN)
        metadata = {"Date": None} if form == "svg" else {"Software": None}
        figure.savefig(page, format=form, dpi=_DPI, metadata=metadata)


def _x(lane: int) -> float:
    return _MARGIN + _LANE * lane


def _y(row: float) -> float:
    return _MARGIN + _ROW * (row + 0.5)


def _turns(edge: GraphEdge) -> int:
    return sum(one != other for one, other in pairwise(edge.lanes))


def _colour(lane: int) -> str:
    return _PALETTE[lane % len(_PALETTE)]


def _text_width(node: GraphNode) -> float:
    names = sum(_name_width(name) + _GAP for name in node.names)
    return names + _CHARACTER * len(node.subject) + _GAP


def _name_width(name: str) -> float:
    return 0.9 * _CHARACTER * len(name) + 8


def _draw_edge(axes: Any, edge: GraphEdge) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points = [(_x(lane), _y(edge.row + at)) for at, lane in enumerate(edge.lanes)]
    vertices, codes = [points[0]], [Path.MOVETO]
    for (x, y), (to_x, to_y) in pairwise(points):
        if x == to_x:
            vertices.append((to_x, to_y))
            codes.append(Path.LINETO)
        else:
            middle = (y + to_y) / 2
            vertices += [(x, middle), (to_x, middle), (to_x, to_y)]
            codes += [Path.CURVE4] * 3
    way = Path(vertices, codes)
    colour = _colour(max(edge.lanes[0], edge.lanes[min(1, len(edge.lanes) - 1)]))
    patch = PathPatch(way, facecolor="none", edgecolor=colour, linewidth=1.8, capstyle="round")
    patch.set_gid(f"edge-{edge.child}-{edge.parent}")
    axes.add_patch(patch)


def _draw_node(axes: Any, node: GraphNode) -> None:
    from matplotlib.patches import Circle

    is_merge = len(node.commit.parents) > 1
    colour = _colour(node.lane)
    circle = Circle(
        (_x(node.lane), _y(node.row)),
        radius=4.5,
        facecolor="white" if is_merge else colour,
        edgecolor=colour,
        linewidth=1.8,
        zorder=3,
    )
    circle.set_gid(f"commit-{node.commit.id}")
    axes.add_patch(circle)


def _draw_texts(axes: Any, node: GraphNode, x: float, details: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    y, plain = _y(node.row), {"va": "center", "parse_math": False}
    for name in node.names:
        width, colour = _name_width(name), _PALE if name.startswith("tag: ") else _colour(node.lane)
        box = FancyBboxPatch(
            (x, y - 7.5),
            width,
            15,
            boxstyle="round,pad=0,rounding_size=4",
            facecolor=f"{colour}22",
            edgecolor=colour,
            linewidth=0.9,
        )
        axes.add_patch(box)
        axes.text(x + width / 2, y, name, fontsize=_SMALL, color=_INK, ha="center", **plain)
        x += width + _GAP
    axes.text(x, y, node.subject, fontsize=_FONT, color=_INK, **plain)
    text = f"{node.commit.id[:8]}  {node.details}"
    axes.text(details, y, text, fontsize=_SMALL, color=_PALE, **plain)
