"""URIs of a lake's contents: `lakefs://REPOSITORY[/REF[/KEY]]`.

A URI is verbatim: spaces, '%', '?', '#' and '//' in a key are part of the key, and nothing is
decoded. `lakefs://lake/main` has no key, and `lakefs://lake/main/` has an empty one. Only
`lakefs+escaped://` has a percent-encoded key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from sparklake.errors import InvalidUriError

SCHEME = "lakefs://"
ESCAPED_SCHEME = "lakefs+escaped://"
"""The scheme of URIs with a percent-encoded key, for keys that cannot be typed."""

_BAD_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")

_FEW_SLASHES = re.compile("(?s)lakefs:/?([^/].*)")

_IN_NAME = re.compile(r"[A-Za-z0-9_.:+=-]+")

_REPOSITORY_FORM = "lakefs://REPOSITORY"
_REF_FORM = "lakefs://REPOSITORY/REF"
_KEY_FORM = "lakefs://REPOSITORY/REF/KEY"


@dataclass(frozen=True, slots=True)
class LakeUri:
    """A parsed URI. None is a missing part."""

    repository: str
    ref: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        parts = (self.repository, self.ref, self.key)
        return SCHEME + "/".join(part for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class RefUri:
    """The URI of a branch, a tag or a commit of a repository."""

    repository: str
    ref: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}/{self.ref}"


@dataclass(frozen=True, slots=True)
class KeyUri:
    """The URI of an object at a ref, or of all objects with a key prefix."""

    repository: str
    ref: str
    key: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}/{self.ref}/{self.key}"


def parse_uri(text: str) -> LakeUri:
    """Parse a URI of any kind."""
    is_escaped = text.startswith(ESCAPED_SCHEME)
    slashes = _FEW_SLASHES.fullmatch(text)
    if slashes is not None:
        raise _invalid(text, "needs two slashes after 'lakefs:'", SCHEME + slashes[1])
    if not is_escaped and not text.startswith(SCHEME):
        raise _invalid(text, f"does not start with {SCHEME}", _KEY_FORM)
    if not is_utf8(text):
        raise _invalid(text, "is not UTF-8", _KEY_FORM)
    repository, *rest = text.partition("://")[2].split("/", 2)
    if any("\0" in part for part in (repository, *rest[:1])):
        raise _invalid(text, "has a NUL character in a name", _KEY_FORM)
    if not repository:
        raise _invalid(text, "has no repository", _REPOSITORY_FORM)
    if rest and not rest[0]:
        raise _invalid(text, "has no ref after the repository", _REF_FORM)
    if is_escaped and len(rest) > 1:
        rest[1] = _unescaped(text, rest[1])
    return LakeUri(repository, *rest)


def _unescaped(text: str, key: str) -> str:
    try:
        if not _BAD_PERCENT.search(key):
            return unquote_to_bytes(key).decode()
    except UnicodeError as error:
        raise _invalid(text, "has a key that is not UTF-8", _KEY_FORM) from error
    raise _invalid(text, "has a '%' without two hexadecimal digits", _KEY_FORM)


def repository_uri(text: str) -> str:
    """Return the repository of a URI without a ref."""
    uri = parse_uri(text)
    if uri.ref is not None:
        raise _invalid(text, "names more than a repository", f"{SCHEME}{uri.repository}")
    return uri.repository


def ref_uri(text: str) -> RefUri:
    """Return the ref of a URI without a key."""
    uri = parse_uri(text)
    if uri.ref is None:
        raise _invalid(text, "has no ref", f"{SCHEME}{uri.repository}/main")
    if uri.key is not None:
        raise _more_than_a_ref(text, uri)
    return RefUri(uri.repository, uri.ref)


def is_bare(text: str) -> bool:
    """Return whether a text is a ref alone, and no URI."""
    return bool(text) and "/" not in text


def ref_in(repository: str, text: str) -> RefUri:
    """Return a ref of the given repository, from its URI or the ref alone."""
    uri = ref_uri(f"{SCHEME}{repository}/{text}" if is_bare(text) else text)
    if uri.repository != repository:
        raise InvalidUriError(
            f"{text!r} and {repository!r} are different repositories: use refs of one repository, "
            f"such as {SCHEME}{repository}/{uri.ref}"
        )
    return uri


def plain_ref(repository: str, text: str) -> str:
    """Return a ref of the given repository that may be a URI."""
    return ref_in(repository, text).ref if text.startswith(SCHEME) else text


def refs_uri(text: str) -> tuple[str, str | None]:
    """Return the repository and the optional ref of a URI without a key."""
    uri = parse_uri(text)
    if uri.key is not None:
        raise _more_than_a_ref(text, uri)
    return uri.repository, uri.ref


def object_uri(text: str) -> KeyUri:
    """Return the object of a URI with a key."""
    uri = parse_uri(text)
    if uri.ref is None or not uri.key:
        raise _invalid(
            text, "has no object key", f"{SCHEME}{uri.repository}/{uri.ref or 'main'}/KEY"
        )
    return KeyUri(uri.repository, uri.ref, uri.key)


def folder_uri(text: str) -> KeyUri:
    """Return the folder of a URI; "" is the whole ref."""
    return prefix_uri(text) if parse_uri(text).key == "" else object_uri(text)


def prefix_uri(text: str) -> KeyUri:
    """Return the prefix of a URI, "" without a key."""
    uri = parse_uri(text)
    if uri.ref is None:
        raise _invalid(text, "has no ref", f"{SCHEME}{uri.repository}/main/PREFIX")
    return KeyUri(uri.repository, uri.ref, uri.key or "")


def same_branch(first: KeyUri, second: KeyUri) -> str:
    """Return the common branch of two keys."""
    if (first.repository, first.ref) != (second.repository, second.ref):
        raise InvalidUriError(
            f"{str(first)!r} and {str(second)!r} are on different branches: copy between "
            "branches, and then remove the original"
        )
    return first.ref


def same_repository(first: RefUri | KeyUri, second: RefUri | KeyUri) -> str:
    """Return the common repository of two refs."""
    if first.repository != second.repository:
        raise InvalidUriError(
            f"{str(first)!r} and {str(second)!r} are in different repositories: use refs of "
            f"one repository, such as {SCHEME}{first.repository}/{second.ref}"
        )
    return first.repository


def _more_than_a_ref(text: str, uri: LakeUri) -> InvalidUriError:
    """Return the error for a URI with a key. The '/' may be intended as part of the name."""
    place = f"{SCHEME}{uri.repository}/{uri.ref}"
    other = (uri.key or "").strip("/").replace("/", "-")
    hint = f", or {place}-{other}, because names of branches and tags contain no '/'"
    return _invalid(
        text, "names more than a ref", place + (hint if _IN_NAME.fullmatch(other) else "")
    )


def _invalid(text: str, reason: str, right: str) -> InvalidUriError:
    return InvalidUriError(f"{text!r} {reason}: write {right}")


def is_utf8(text: str) -> bool:
    """Return whether a string can be encoded; a file name may not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
