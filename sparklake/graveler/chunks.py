"""Consecutive items in lists of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def chunked(items: Iterable[T], count: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, count)):
        yield chunk


def sliced(items: Iterable[T], size: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield items in lists of at least `size`, except for the last one."""
    group: list[T] = []
    group_size = 0
    for each in items:
        group.append(each)
        group_size += size_of(each)
        if group_size >= size:
            yield group
            group, group_size = [], 0
    if group:
        yield group
