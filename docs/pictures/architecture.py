"""Draw the layers and features of sparklake as architecture.svg.

The layers are those of the import-linter contract in pyproject.toml. The features are the folders
and modules of `sparklake/verbs`. Run `python docs/pictures/architecture.py` after changing either.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sparklake"
PICTURE = Path(__file__).with_suffix(".svg")

BASE = "base"
BY_FEATURE = ("cli", "verbs", "frames", "udfs")
"""The layers that have a module or folder for each feature."""

MARGIN, LEFT, CELL, LINE, GAP = 16, 130, 78, 28, 5
CHARACTER = 7.3
NOTE = "Imports point down only. Blue: the code of one feature in one layer."
STYLE = (
    "text{font:12px monospace;fill:#1b1f24} .layer{font-weight:bold} .note{font:13px sans-serif}"
    " .band{fill:#f6f8fa;stroke:#d0d7de} .cell{fill:#cfe3ff;stroke:#6ea0e0}"
    " .part{fill:#ffffff;stroke:#afb8c1}"
)


def layers() -> list[list[str]]:
    """Return the layers of the contract, top to bottom, each as its members."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        each
        for each in project["tool"]["importlinter"]["contracts"]
        if each["type"] == "layers" and each.get("containers") == ["sparklake"]
    )
    return [re.findall(r"\w+", each) for each in contract["layers"]]


def members(package: str) -> list[str]:
    """Return the modules and folders of a package, in order of their names."""
    found = (PACKAGE / package).glob("[a-z]*")
    return sorted(
        each.stem for each in found if each.suffix == ".py" or (each / "__init__.py").is_file()
    )


def features() -> list[str]:
    """Return the features: what `verbs` has besides its shared base."""
    return [each for each in members("verbs") if each != BASE]


def parts(package: str) -> list[str]:
    """Return the folders of a package that are not features."""
    folders = (each for each in members(package) if (PACKAGE / package / each).is_dir())
    return [each for each in folders if package not in BY_FEATURE or each not in features()]


def rows() -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of the picture: a package alone, or the modules of one layer."""
    for names in layers():
        packages = [each for each in names if (PACKAGE / each).is_dir()]
        yield from ((each, []) for each in packages)
        modules = [each for each in names if each not in packages]
        if modules:
            yield modules[0] if len(modules) == 1 else "", modules


def box(kind: str, x: float, y: float, width: float, text: str = "", lines: float = 1) -> str:
    """Return a rectangle of one or more lines with a text in its middle."""
    height = lines * LINE - GAP
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'
    return shape + (label(x + width / 2, y, text, anchor="middle") if text else "")


def label(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "name") -> str:
    """Return a text on the line that begins at `y`."""
    where = f'x="{x:g}" y="{y + 16:g}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where}>{escape(text)}</text>'


def boxes(y: float, names: Sequence[str]) -> Iterator[str]:
    """Yield boxes side by side, as wide as their texts."""
    x = LEFT
    for each in names:
        width = len(each) * CHARACTER + 14
        yield box("part", x, y, width, each)
        x += width + GAP


def cells(y: float, package: str) -> Iterator[str]:
    """Yield a box in the column of each feature that a package has."""
    here = members(package)
    for column, feature in enumerate(features()):
        if feature in here:
            yield box("cell", LEFT + column * CELL, y, CELL - GAP, feature)


def package_lines(y: float, package: str) -> list[list[str]]:
    """Return the lines of a package: its features by column, then its other folders."""
    split = [list(cells(y, package))] if package in BY_FEATURE else []
    others = list(boxes(y + LINE * len(split), parts(package)))
    return [*split, others] if others or not split else split


def picture() -> str:
    """Return the picture as SVG."""
    width = LEFT + CELL * len(features()) + MARGIN
    drawn = [label(MARGIN, MARGIN, NOTE, kind="note")]
    y = MARGIN + LINE
    for package, modules in rows():
        lines = [] if modules else package_lines(y + GAP, package)
        name = ", ".join(f"{each}.py" for each in modules) or f"{package}/"
        drawn.append(box("band", MARGIN, y, width - 2 * MARGIN, lines=max(len(lines), 1) + 0.4))
        drawn.append(label(MARGIN + GAP, y + GAP, name, kind="layer"))
        drawn += [each for line in lines for each in line]
        y += LINE * max(len(lines), 1) + 3 * GAP
    text = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + MARGIN}">\n'
        f"<title>Layers and features of sparklake</title>\n<style>{STYLE}</style>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{text}\n</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
