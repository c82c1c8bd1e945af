"""Measure the prose and the names of a Python package.

`python tools/prose.py [PATH ...] [--list N]` prints the value and the target of each measure. With
--list, it also prints N places of each measure, as FILE:LINE and the text. The exit status is 1 if
a value exceeds its target.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PARTICIPLES = frozenset(
    (
        *("made", "found", "said", "kept", "given", "taken", "left", "seen", "wanted", "named"),
        *("held", "known", "chosen", "written", "gone", "asked", "told", "shown", "noted", "begun"),
    )
)

# Patterns of paraphrases, with the engineering word.
LEXICON = {
    r"\bthat nothing (names|refers to)\b|\bnothing names\b": "unreferenced",
    r"\bno (commit|ref|table|tree|branch) names\b": "unreferenced",
    r"\breplaced? by\b|\breplaces? \w+ by\b": "replace with",
    r"\bcut off\b": "truncated",
    r"\b(has|have|had) (begun|ended)\b|\b(begin|begins|began)\b": "start",
    r"\bmeanwhile\b": "concurrently",
    r"\bsome (keys|positions|rows|records|items|paths|ids|ranges|bytes|objects)\b": "the given ...",
    r"\bsome (names|files|blocks|columns|commits)\b": "the given ...",
    r"\b(is|are|was|were) (told|asked)\b": "name the call",
    r"\b(way|ways) out\b|\bway_out\b": "remedy",
    r"\banother (\w+ )?than\b": "different from",
    r"\bfrom \w+ on\b": "starting at / since",
    r"\bwhose turn\b|\bin turn\b": "queue slot / one by one",
    r"\bis to be (read|seen|found|had)\b": "can be read / is available",
    r"\bwhat (is|was|are|were|it|they|each|a|the)\b": "name the thing",
}

CLAUSE = re.compile(r"\b(that|which|whose|who|what)\b")
RAISE = re.compile(r"; raises? [A-Z]\w+")
PERFECT = re.compile(
    r"\b(has|have) (\w+ )?(\w+ed|begun|written|made|seen|read|gone|left|lost|taken|given|been)\b"
)
OF = re.compile(r"\bof\b.*\bof\b")

MEASURES = {
    "relative": ("first sentences with that/which/whose/who/what, %", 12.0),
    "raise": ("'; raise XError' in a first sentence", 0),
    "perfect": ("docstrings in the present perfect", 20),
    "of": ("first sentences with two or more 'of', %", 4.0),
    "participles": ("variables and parameters named by a participle", 100),
    "lexicon": ("words of the lexicon in docstrings, comments and messages", 60),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the prose and the names of a package.")
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("sparklake")])
    parser.add_argument("--list", type=int, default=0, metavar="N", help="places to print")
    arguments = parser.parse_args()
    files = [
        file
        for path in arguments.paths
        for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))
    ]
    places: dict[str, list[str]] = defaultdict(list)
    docstrings = 0
    for file in files:
        source = file.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(source)))
        for line, text in docstrings_of(nodes):
            docstrings += 1
            first = first_sentence(text)
            for measure in style_of(text, first):
                places[measure].append(f"{file}:{line} {first}")
        places["participles"] += (f"{file}:{line} {name}" for line, name in participles(nodes))
        for line, text in [*messages(nodes), *comments(source)]:
            places["lexicon"] += (f"{file}:{line} {each}" for each in paraphrases(text))
    if not docstrings:
        print("no docstring found")
        return 2
    missed = False
    for measure, (label, target) in MEASURES.items():
        value = float(len(places[measure]))
        if label.endswith("%"):
            value *= 100 / docstrings
        missed |= value > target
        print(f"{'MISS' if value > target else 'ok  '} {value:8.1f}  target {target:g}  {label}")
        for place in places[measure][: arguments.list]:
            print(f"       {place}")
    print(f"{docstrings} docstrings in {len(files)} files")
    return int(missed)


def docstrings_of(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]


def style_of(text: str, first: str) -> Iterator[str]:
    """Yield the measures that a docstring counts against."""
    if CLAUSE.search(first):
        yield "relative"
    if RAISE.search(first):
        yield "raise"
    if PERFECT.search(text):
        yield "perfect"
    if OF.search(first):
        yield "of"


def participles(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        if name in PARTICIPLES:
            yield node.lineno, name


def messages(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("# "):
            yield number, line.strip()


def paraphrases(text: str) -> Iterator[str]:
    for pattern, better in LEXICON.items():
        for match in re.finditer(pattern, text):
            yield f"{match.group()!r}: {better}"


if __name__ == "__main__":
    sys.exit(main())
