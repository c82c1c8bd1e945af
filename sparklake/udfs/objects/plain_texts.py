"""Checks of whole columns of paths and addresses.

A text that passes is valid. The others are checked one by one, with an error for each.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler import compiled
from sparklake.graveler.blocks.buffers import Mask
from sparklake.graveler.kernels import kernel
from sparklake.stores.objects.addresses import PLAIN_PLACES, URI_START

_BEGINNING = rf"^({PLAIN_PLACES})/[^./\x00]"
_WHOLE = rf"^({PLAIN_PLACES})(/[^./\x00][^/\x00]*)+$"


@kernel(compiled.plain_keys)
def plain_keys(texts: pa.StringArray) -> Mask:
    """Return which texts have no NUL, no leading '/', and no part with a leading '.'."""
    return _truth(_are_plain_keys(texts))


@kernel(compiled.plain_addresses)
def plain_addresses(addresses: pa.StringArray, storage_namespace: str) -> Mask:
    """Return which addresses are plain keys, or URIs with a valid start outside a namespace."""
    plain = pc.if_else(
        pc.match_substring(addresses, "://"),
        pc.and_(
            pc.match_substring_regex(addresses, _BEGINNING),
            pc.invert(pc.starts_with(addresses, storage_namespace)),
        ),
        pc.and_(
            _are_plain_keys(addresses),
            pc.invert(pc.match_substring_regex(addresses, URI_START.pattern)),
        ),
    )
    return _truth(plain)


@kernel(compiled.plain_uris)
def plain_uris(addresses: pa.StringArray) -> Mask:
    """Return which addresses are URIs without NUL, empty parts or parts with a leading '.'."""
    return _truth(pc.match_substring_regex(addresses, _WHOLE))


def _are_plain_keys(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.and_(
        pc.match_substring_regex(texts, r"^[^./\x00]"),
        pc.invert(pc.match_substring_regex(texts, r"/\.|\x00")),
    )


def _truth(values: pa.BooleanArray) -> Mask:
    truth: Mask = values.fill_null(False).to_numpy(zero_copy_only=False)
    return truth
