"""Names and expressions of refs, and patterns for branch names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidNameError,
    InvalidRefError,
)
from sparklake.graveler.globs import name_pattern

MAX_NAME_CHARACTERS = 255

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+=-]*")
_PART_OF_NAME = re.compile(r"[A-Za-z0-9_.:+=-]*")
_COMMIT_ID = re.compile(r"[0-9a-f]{64}")
_ID_PREFIX = re.compile(r"[0-9a-f]{1,64}")
_REF = re.compile(r"(?P<base>[^~^@$]+)(?P<modifiers>(?:[~^][0-9]*|[@$])*)")
_STEP = re.compile(r"([~^])([0-9]*)")
_MAX_STEP_DIGITS = 9
_MAX_COMPARED = 10_000


class StepKind(str, Enum):
    ANCESTOR = "~"
    PARENT = "^"


@dataclass(frozen=True, slots=True)
class RefStep:
    """One modifier: `~count` first parents back, or the `^count`-th parent."""

    kind: StepKind
    count: int


@dataclass(frozen=True, slots=True)
class Ref:
    """A parsed ref expression.

    `committed` marks `branch@`, the head without staged changes; `staged` marks `branch$`, the
    staged changes alone.
    """

    base: str
    steps: tuple[RefStep, ...] = ()
    committed: bool = False
    staged: bool = False


def parse_ref(text: str) -> Ref:
    match = _REF.fullmatch(text)
    # Spaces, control characters and surrogates are refused. A surrogate is a byte that is not
    # UTF-8.
    if match is None or " " in text or not text.isprintable():
        raise InvalidRefError(
            f"{text!r} is not a ref: write a branch, a tag or a commit id, then ~N or ^N steps"
        )
    base, modifiers = match["base"], match["modifiers"]
    if modifiers in ("@", "$"):
        return Ref(base, committed=modifiers == "@", staged=modifiers == "$")
    if "@" in modifiers or "$" in modifiers:
        raise InvalidRefError(
            f"{text!r} combines '@' or '$' with other steps: use only one of them, after "
            "a branch name"
        )
    return Ref(base, tuple(_step(text, kind, digits) for kind, digits in _STEP.findall(modifiers)))


def _step(text: str, kind: str, digits: str) -> RefStep:
    if len(digits) > _MAX_STEP_DIGITS:
        raise InvalidRefError(f"the step {kind}{digits} of {text!r} is too large")
    return RefStep(StepKind(kind), int(digits) if digits else 1)


def is_commit_id(text: str) -> bool:
    return _COMMIT_ID.fullmatch(text) is not None


def is_commit_id_prefix(text: str) -> bool:
    return _ID_PREFIX.fullmatch(text) is not None


def is_part_of_name(text: str) -> bool:
    return _PART_OF_NAME.fullmatch(text) is not None


def validate_repository_name(name: str) -> str:
    if not _REPOSITORY.fullmatch(name):
        raise InvalidNameError(
            f"{name!r} cannot be the name of a repository: use 3 to 63 lower-case letters, "
            "digits and '-', starting with a letter or digit"
        )
    return name


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a hint for a misspelled name, such as " (did you mean 'main'?)", or ""."""
    # Lazy import: only errors need it.
    from difflib import get_close_matches

    near = get_close_matches(name, list(islice(names, _MAX_COMPARED)), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def name_taken(noun: str, name: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"there is already a {noun} {name!r}: choose another name")


def validate_branch_name(name: str) -> str:
    return _validate_name(name, "branch")


def validate_tag_name(name: str) -> str:
    return _validate_name(name, "tag")


def _validate_name(name: str, noun: str) -> str:
    well_formed = (
        _NAME.fullmatch(name)
        and len(name) <= MAX_NAME_CHARACTERS
        and ".." not in name
        and not name.endswith((".", ".lock"))
    )
    if "/" in name:
        other = name.strip("/").replace("/", "-")
        instead = f": use {other!r}" if other and is_part_of_name(other) else ""
        raise InvalidNameError(
            f"{name!r} cannot be the name of a {noun}: '/' ends the ref in lakefs://REPO/REF/KEY, "
            f"and lakeFS also rejects it{instead}"
        )
    if not well_formed:
        raise InvalidNameError(
            f"{name!r} cannot be the name of a {noun}: use letters, digits and _ . : + = -, "
            "starting with a letter, digit or _, without '..', not ending in '.' or '.lock', "
            f"at most {MAX_NAME_CHARACTERS} characters"
        )
    if is_commit_id(name):
        raise InvalidNameError(
            f"{name!r} cannot be the name of a {noun}: it looks like a commit id"
        )
    return name


_ANY, _ONE = "*", "?"


def check_pattern(pattern: str) -> None:
    """Reject a pattern that no branch name can match."""
    literal = pattern.replace(_ANY, "").replace(_ONE, "")
    if not pattern or not is_part_of_name(literal):
        raise InvalidInputError(
            f"{pattern!r} matches no branch name: use a name with * for any characters and ? "
            "for one. Branch names contain no /"
        )
    if len(pattern) > MAX_NAME_CHARACTERS:
        raise InvalidInputError(f"a pattern may have at most {MAX_NAME_CHARACTERS} characters")


def fits(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a whole name, in time O(pattern x name)."""
    return name_pattern(pattern).fullmatch(name) is not None
