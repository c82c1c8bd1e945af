"""The drawing of a history as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from sparklake.verbs.history.graph import GraphEdge, GraphNode, HistoryGraph

# All lengths are in points.
_ROW, _LANE, _MARGIN = 26.0, 18.0, 16.0
_FONT, _SMALL = 10.0, 8.0
_GAP = 8.0
_DETAILS = 150.0
_CHARACTER = 6.3

_PALETTE = ("#2f6fdb", "#d9603b", "#2e9d62", "#8a56c9", "#c2922a", "#1c9bb0", "#cf4a86", "#6b7280")
_INK, _PALE = "#1f2933", "#7b8794"


def svg(graph: HistoryGraph) -> str:
    """Return a picture with an element for each commit and edge, with their ids."""
    lanes = 1 + max((lane for each in graph.edges for lane in each.lanes), default=0)
    start = 2 * _MARGIN + _LANE * (lanes - 1) + _GAP
    text = max((_text_width(each) for each in graph.nodes), default=0.0)
    width = start + text + _DETAILS + 2 * _MARGIN
    height = _ROW * max(len(graph.nodes), 1) + 2 * _MARGIN
    size = f'width="{width:g}pt" height="{height:g}pt" viewBox="0 0 {width:g} {height:g}"'
    font = 'font-family="DejaVu Sans, sans-serif"'
    # Straight lines are drawn on top of lines that join them.
    edges = sorted(graph.edges, key=_turns, reverse=True)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        '<rect width="100%" height="100%" fill="white"/>',
        *map(_edge, edges),
        *map(_circle, graph.nodes),
        *(part for node in graph.nodes for part in _texts(node, start, width - _DETAILS - _MARGIN)),
        "</svg>\n",
    ]
    return "\n".join(parts)


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


def _edge(edge: GraphEdge) -> str:
    points = [(_x(lane), _y(edge.row + at)) for at, lane in enumerate(edge.lanes)]
    line = [f"M {points[0][0]:g} {points[0][1]:g}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        curve = f"C {x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
        line.append(f"V {to_y:g}" if x == to_x else curve)
    colour = _colour(max(edge.lanes[0], edge.lanes[min(1, len(edge.lanes) - 1)]))
    return (
        f'<path id="edge-{edge.child}-{edge.parent}" d="{" ".join(line)}" fill="none" '
        f'stroke="{colour}" stroke-width="1.8" stroke-linecap="round"/>'
    )


def _circle(node: GraphNode) -> str:
    colour = _colour(node.lane)
    fill = "white" if len(node.commit.parents) > 1 else colour
    return (
        f'<circle id="commit-{node.commit.id}" cx="{_x(node.lane):g}" cy="{_y(node.row):g}" '
        f'r="4.5" fill="{fill}" stroke="{colour}" stroke-width="1.8"/>'
    )


def _texts(node: GraphNode, x: float, details: float) -> Iterator[str]:
    y = _y(node.row)
    for name in node.names:
        width, colour = _name_width(name), _PALE if name.startswith("tag: ") else _colour(node.lane)
        yield (
            f'<rect x="{x:g}" y="{y - 7.5:g}" width="{width:g}" height="15" rx="4" '
            f'fill="{colour}" fill-opacity="0.13" stroke="{colour}" stroke-width="0.9"/>'
        )
        yield _text(x + width / 2, y, name, _SMALL, _INK, ' text-anchor="middle"')
        x += width + _GAP
    yield _text(x, y, node.subject, _FONT, _INK)
    yield _text(details, y, f"{node.commit.id[:8]}  {node.details}", _SMALL, _PALE)


def _text(x: float, y: float, text: str, size: float, colour: str, more: str = "") -> str:
    baseline = y + 0.35 * size  # Not every program knows dominant-baseline.
    start = f'<text x="{x:g}" y="{baseline:g}" font-size="{size:g}" fill="{colour}"{more}>'
    return f"{start}{escape(text)}</text>"
