"""Tables with damaged blocks and repaired checksums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import google_crc32c

from sparklake.graveler.sstable import foreign, layout
from sparklake.graveler.sstable.layout import FOOTER_BYTES, Handle


def block_handles(file: bytes) -> list[Handle]:
    """Return all block handles of a sound table."""
    handles = layout.meta_blocks(file)
    index = handles[b""]
    meta_index, _ = layout.read_handle(file[-FOOTER_BYTES:], 1)
    properties = layout.properties(file)
    data = list(foreign._data_handles(file, index, properties))
    parts = [] if properties.get(foreign._INDEX_TYPE, bytes(4))[0] == 0 else [*_parts(file, index)]
    return [*data, *parts, *handles.values(), meta_index]


def _parts(file: bytes, index: Handle) -> Iterator[Handle]:
    return foreign._handles_in(file, index)


def with_block(file: bytes, handle: Handle, content: bytes) -> bytes:
    """Replace one block and its compression type with bytes of the same length.

    The checksum is that of the new bytes.
    """
    assert len(content) == handle.size + 1
    checksum = layout._masked(google_crc32c.value(content)).to_bytes(4, "little")
    end = handle.offset + handle.size + layout.TRAILER_BYTES
    return file[: handle.offset] + content + checksum + file[end:]


Damage = tuple[float, float, int]
"""Which block, where in it, and what its byte becomes: fractions, and a byte."""


def damaged(file: bytes, handles: Sequence[Handle], damage: Sequence[Damage]) -> bytes:
    """Damage some block bytes of a table, and repair the checksums."""
    for which, where, byte in damage:
        handle = handles[int(which * len(handles))]
        block = bytearray(file[handle.offset : handle.offset + handle.size + 1])
        block[int(where * len(block))] = byte
        file = with_block(file, handle, bytes(block))
    return file
