"""The search for a version with a different address of an object."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.ranges import MetaRange, position_reaching
from sparklake.namespace.addresses import full_addresses
from sparklake.verbs.base.context import Context

VERSIONS_SEARCHED = 1_000
"""The number of commits to search, those nearest to branches and tags first."""


def find_version(context: Context, path: str, address: str) -> MetaRangeId | None:
    """Return the tree of an unexpired commit with an address, a full URI, at a path."""
    key, visited = path.encode(), set[RangeId]()
    for tree in _trees(context):
        if _names(context, tree, key, address, visited):
            return tree.id
    return None


def _trees(context: Context) -> Iterator[MetaRange]:
    refs = context.refs
    heads = [
        *(each.commit_id for each in refs.branches.list()),
        *(each.commit_id for each in refs.tags.list()),
    ]
    commits = refs.commits.ancestry(heads, VERSIONS_SEARCHED)
    expired = refs.commits.expired([each.id for each in commits])
    trees = (each.meta_range_id for each in commits if each.id not in expired)
    yield from map(context.trees.get, dict.fromkeys(trees))


def _names(
    context: Context, tree: MetaRange, key: bytes, address: str, visited: set[RangeId]
) -> bool:
    """Return whether a tree has the address at a key; repeated ranges do not count."""
    at = position_reaching(tree.ranges, key)
    if at == len(tree.ranges) or tree.ranges[at].id in visited:
        return False
    visited.add(tree.ranges[at].id)
    stored = context.open_ranges.lookup(tree.ranges, key)
    if stored is None:
        return False
    entries = decode_entries(block_of_records([(key, stored)]))
    return address in full_addresses(context.store.uri, entries).to_pylist()
