r"""The drawing of a history as lanes, line by line, children before their parents.

A merge opens a lane for its second parent. Two lanes join at their common commit:

    *    merge
    |-\
    | *  on the branch
    * |  on main
    |-/
    *    the start of the branch
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparklake.graveler.ports import BranchState, TagInfo


@dataclass(frozen=True, slots=True)
class Drawing:
    """The drawing of one commit: beside its lines, and below them."""

    lane: int
    node: str
    beside: str
    links: tuple[str, ...]


@dataclass(slots=True)
class Lanes:
    """The lanes of the remaining commits, each commit once. None is a free lane."""

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
