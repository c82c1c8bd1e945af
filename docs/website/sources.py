"""The source folder of the site: the pages of docs/, and everything that they link to."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
ENTRANCES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
"""The pages of the root folder that are on the site."""

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_FENCE = re.compile(r"^ *(```+|~~~+)")


class BrokenLinkError(ValueError):
    """A link to a file that does not exist, or that a reader of the site cannot open."""


def site_path(path: PurePosixPath) -> PurePosixPath:
    """Return the place on the site of a file of the project."""
    if path.parts[0] == "docs":
        return path.relative_to("docs")
    if path.suffix == ".md":
        # A README in the root would be the page of the whole site.
        return PurePosixPath(path.name.lower()) if len(path.parts) == 1 else path
    return "files" / path


def page_text(path: PurePosixPath, text: str) -> tuple[str, set[PurePosixPath]]:
    """Return a page as it is on the site, and the files of the project that it links to.

    Links lead to places on the site. Comments are left out.
    """
    linked: set[PurePosixPath] = set()
    parts = [
        part if is_code else _COMMENT.sub("", _with_links(path, part, linked))
        for is_code, part in _parts(text)
    ]
    return "".join(parts), linked


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the text between fences, and the fences with their code."""
    part: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if found and not fence:
            yield False, "".join(part)
            part, fence = [line], found[1]
        elif found and found[1] == fence:
            yield True, "".join([*part, line])
            part, fence = [], ""
        else:
            part.append(line)
    yield bool(fence), "".join(part)


def _with_links(path: PurePosixPath, text: str, linked: set[PurePosixPath]) -> str:
    def link(found: re.Match[str]) -> str:
        target, hash_sign, anchor = found["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        file = _file(path, target)
        if file is None:
            return found["text"]
        linked.add(file)
        place = posixpath.relpath(site_path(file), site_path(path).parent)
        return f"{found['image']}[{found['text']}]({place}{hash_sign}{anchor})"

    return _LINK.sub(link, text)


def _file(path: PurePosixPath, target: str) -> PurePosixPath | None:
    """Return the file that a link leads to; None for a folder, which a site does not have."""
    file = PurePosixPath(posixpath.normpath(path.parent / target))
    if file.parts[0] == ".." or not (ROOT / file).exists():
        raise BrokenLinkError(f"{path} links to {target}, which does not exist")
    if not (ROOT / file).is_dir():
        return file
    index = file / "README.md"
    return index if (ROOT / index).is_file() else None


def write_sources(folder: Path) -> list[PurePosixPath]:
    """Write all pages and the files that they link to; return the pages' places on the site."""
    docs = (path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))
    waiting = {*map(PurePosixPath, ENTRANCES), *map(PurePosixPath, docs)}
    done: set[PurePosixPath] = set()
    while waiting:
        path = waiting.pop()
        done.add(path)
        place = folder / site_path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text, linked = page_text(path, (ROOT / path).read_text(encoding="utf-8"))
            place.write_text(text, encoding="utf-8")
            waiting |= linked - done
        else:
            shutil.copyfile(ROOT / path, place)
    return sorted(site_path(path) for path in done if path.suffix == ".md")
