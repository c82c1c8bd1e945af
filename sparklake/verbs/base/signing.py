"""The message, committer and metadata of a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sparklake.errors import InvalidInputError
from sparklake.uri import is_utf8
from sparklake.verbs.base.context import Context

MAX_TEXT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Signature:
    """The message, committer and metadata of a commit."""

    message: str
    committer: str
    metadata: Mapping[str, str]

    def labelled(self, labels: Mapping[str, str]) -> Signature:
        return replace(self, metadata={**self.metadata, **labels})


def sign(
    context: Context, message: str, committer: str | None, metadata: Mapping[str, str] | None
) -> Signature:
    if not message.strip():
        raise InvalidInputError("a commit needs a message: describe what changed and why")
    who = committer or context.committer
    texts = [message, who, *(metadata or {}).keys(), *(metadata or {}).values()]
    check_texts(texts, "a commit's message, committer and metadata")
    return Signature(message, who, dict(metadata or {}))


def check_texts(texts: Sequence[str], noun: str) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(f"{noun} must be strings: {texts!r} contains another type")
    if any("\0" in text or not is_utf8(text) for text in texts):
        raise InvalidInputError(f"{noun} must be UTF-8 without NUL")
    if sum(len(text.encode()) for text in texts) > MAX_TEXT_BYTES:
        raise InvalidInputError(f"{noun} may take at most {MAX_TEXT_BYTES} bytes")
