"""Columns of bytes: vectorized slices, words and varints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler import kernels
from sparklake.graveler.buffers import Bytes, Ids, Mask, Positions, binary_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD_BYTES = 8


@kernels.defines(kernels.sha256_each)
def sha256_each(items: pa.BinaryArray) -> pa.BinaryArray:
    return pa.array([sha256(item).digest() for item in items.to_pylist()], pa.binary())


@kernels.defines(kernels.gather)
def gather(data: Bytes, starts: NDArray[Any], lengths: NDArray[Any]) -> pa.BinaryArray:
    """Copy ascending slices of `data` into an array."""
    if len(starts) == 0:
        return pa.array([], pa.binary())
    # An array of the slices and of the gaps between them, from which the slices are taken.
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    np.add(starts, lengths, out=bounds[1::2], casting="unsafe")
    return binary_array(bounds, data).take(pa.array(np.arange(0, len(bounds), 2)))


def joined(*parts: pa.BinaryArray | bytes) -> pa.BinaryArray:
    return pc.binary_join_element_wise(*parts, b"")


@kernels.defines(kernels.paired)
def paired(left: Keys, right: Keys) -> tuple[Positions, Positions]:
    """Return the rows of two sides in key order, -1 where a side lacks the key."""
    places, exists = search(left, right)
    added = ~exists
    partners = np.full(len(left), -1)
    partners[places[exists]] = np.flatnonzero(exists)
    # A key that only the right side has goes before the left row at its position.
    ranks = np.concatenate((2 * np.arange(len(left)) + 1, 2 * places[added]))
    order = np.argsort(ranks, kind="stable")
    at_left = np.concatenate((np.arange(len(left)), np.full(int(added.sum()), -1)))
    at_right = np.concatenate((partners, np.flatnonzero(added)))
    return at_left[order], at_right[order]


def rows_between(starts: Positions, counts: Positions) -> Positions:
    """Return concatenated runs of consecutive numbers, by start and count."""
    ends = np.cumsum(counts)
    if not len(ends):
        return ends
    return np.arange(ends[-1]) + np.repeat(starts + counts - ends, counts)


def items_at(data: Bytes, positions: Positions, width: int) -> NDArray[np.void]:
    """Return the `width` bytes at each position. All must lie in `data`."""
    if len(positions) == 0:
        return np.zeros(0, f"V{width}")
    everywhere = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    items: NDArray[np.void] = everywhere[positions]
    return items


def digests_at(data: Bytes, positions: Positions) -> Ids:
    """Return the 32 bytes at each position as a row of four words, in memory order."""
    return items_at(data, positions, 32).view(np.uint64).reshape(len(positions), 4)


def varints_at(data: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """Return the varints at positions, and the positions after them.

    At least 8 bytes of data must follow each position. Raises IndexError for a varint that is
    truncated or has more than ten bytes.
    """
    firsts = data[positions]
    if (firsts < _MORE).all():
        return firsts.astype(np.int64), positions + 1
    words = items_at(data, positions, WORD_BYTES).view("<u8").astype(np.uint64, copy=False)
    stops = ~words & _STOPS
    first_stop = stops & (~stops + np.uint64(1))
    values, widths = words & _LOW_BITS, np.ones(len(words), np.int64)
    for byte in range(1, WORD_BYTES):
        longer = first_stop > np.uint64(0x80 << 8 * (byte - 1))
        if not longer.any():
            break
        bits = (words >> np.uint64(8 * byte) & _LOW_BITS) << np.uint64(7 * byte)
        values |= np.where(longer, bits, np.uint64(0))
        widths += longer
    numbers = values.view(np.int64)
    for row in np.flatnonzero(stops == 0).tolist():
        numbers[row], widths[row] = _long_varint(data, int(positions[row]))
    return numbers, positions + widths


_MORE = np.uint8(0x80)
_STOPS = np.uint64(0x8080808080808080)
_LOW_BITS = np.uint64(0x7F)
_LONGEST_VARINT = 10


def _long_varint(data: Bytes, position: int) -> tuple[int, int]:
    """Return a varint as a signed 64-bit number, and its length in bytes."""
    number = 0
    for at, byte in enumerate(data[position : position + _LONGEST_VARINT].tolist()):
        number |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            number &= (1 << 64) - 1
            return number - (1 << 64) if number >> 63 else number, at + 1
    raise IndexError


def varint_array(values: NDArray[Any]) -> pa.BinaryArray:
    remaining = np.ascontiguousarray(values, np.uint64)
    if len(remaining) == 0:
        return pa.array([], pa.binary())
    columns = []
    lengths = np.ones(len(remaining), np.int64)
    while True:
        columns.append((remaining & np.uint64(0x7F)).astype(np.uint8))
        remaining = remaining >> np.uint64(7)
        more = remaining > 0
        if not more.any():
            break
        columns[-1][more] |= 0x80
        lengths += more
    matrix = np.stack(columns, axis=1)
    used = matrix[np.arange(len(columns)) < lengths[:, None]]
    return binary_array(np.concatenate(([0], np.cumsum(lengths))), used)


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Keys in ascending order, in place in `data`. At least 8 bytes follow the last key."""

    data: Bytes
    starts: Positions
    lengths: Positions

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        start = self.starts[index]
        return self.data[start : start + self.lengths[index]].tobytes()

    def at(self, rows: Positions | Mask | slice) -> Keys:
        return Keys(self.data, self.starts[rows], self.lengths[rows])

    def array(self) -> pa.BinaryArray:
        return gather(self.data, self.starts, self.lengths)

    def words(self, rows: Positions, word: int) -> NDArray[np.uint64]:
        """Return a word of each key as a big-endian number. All keys must extend into it."""
        counts = np.minimum(self.lengths[rows] - word * WORD_BYTES, WORD_BYTES)
        items = items_at(self.data, self.starts[rows] + word * WORD_BYTES, WORD_BYTES)
        return items.view(">u8").astype(np.uint64) & _MASKS[counts]

    def texts(self, start: int, width: int) -> NDArray[np.bytes_] | None:
        """Return `width` bytes of each key starting at `start`, padded with NULs.

        Returns None if padding would make keys ambiguous or take too much memory.
        """
        positions = self.starts + start
        if not 0 < width <= _MAX_TEXT_BYTES or positions[-1] + width > len(self.data):
            return None
        matrix = items_at(self.data, positions, width).view(np.uint8).reshape(len(self), width)
        lengths = self.lengths - start
        if (lengths < width).any():
            matrix[np.arange(width) >= lengths[:, None]] = 0
        if np.count_nonzero(matrix) != int(lengths.sum()):
            return None
        return matrix.view(f"S{width}")[:, 0]


def keys_of(keys: Sequence[bytes]) -> Keys:
    """Return ascending keys as columns."""
    # Eight bytes follow the last key: words of it are read.
    data = np.frombuffer(b"".join([*keys, bytes(8)]), np.uint8)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    return Keys(data, np.cumsum(lengths) - lengths, lengths)


_MAX_TEXT_BYTES = 256
_MASKS = np.array([(1 << 64) - (1 << (64 - 8 * length)) for length in range(9)], np.uint64)


@kernels.defines(kernels.search)
def search(keys: Keys, targets: Keys) -> tuple[Positions, Mask]:
    """Return the insertion position of each target key, and whether the key exists."""
    if not len(keys) or not len(targets):
        return np.zeros(len(targets), np.int64), np.zeros(len(targets), bool)
    same = _common_bytes(keys, targets)
    width = int(max(keys.lengths.max(), targets.lengths.max())) - same
    texts, target_texts = keys.texts(same, width), targets.texts(same, width)
    if texts is None or target_texts is None:
        return _search_by_words(keys, targets, same // WORD_BYTES)
    places = np.searchsorted(texts, target_texts)
    return places, texts[np.minimum(places, len(texts) - 1)] == target_texts


def _search_by_words(keys: Keys, targets: Keys, first_word: int) -> tuple[Positions, Mask]:
    """Search keys of any length. Words before `first_word` must be equal."""
    low = np.zeros(len(targets), np.int64)
    high = np.full(len(targets), len(keys), np.int64)
    rows = np.arange(len(targets))
    exists = np.zeros(len(targets), bool)
    while len(rows):
        middle = (low[rows] + high[rows]) // 2
        order = _compare(keys, middle, targets, rows, first_word)
        below = order < 0
        low[rows[below]] = middle[below] + 1
        high[rows[~below]] = middle[~below]
        exists[rows[order == 0]] = True
        rows = rows[low[rows] < high[rows]]
    return low, exists


def _compare(
    left: Keys, left_rows: Positions, right: Keys, right_rows: Positions, first_word: int
) -> NDArray[np.int8]:
    """Return -1, 0 or 1 for pairs of keys."""
    lengths, others = left.lengths[left_rows], right.lengths[right_rows]
    order: NDArray[np.int8] = np.sign(lengths - others).astype(np.int8)
    undecided = np.arange(len(left_rows))
    # Where all words agree, padded with zeros, the shorter key is a prefix of the longer, or the
    # longer ends in zeros: it comes later in either case.
    words = -(-np.minimum(lengths, others) // WORD_BYTES)
    word = first_word
    while len(undecided := undecided[words[undecided] > word]):
        one = left.words(left_rows[undecided], word)
        other = right.words(right_rows[undecided], word)
        order[undecided[one < other]] = -1
        order[undecided[one > other]] = 1
        undecided = undecided[one == other]
        word += 1
    return order


def _common_bytes(keys: Keys, targets: Keys) -> int:
    ends = (keys[0], keys[-1], targets[0], targets[-1])
    pairs = enumerate(zip(min(ends), max(ends), strict=False))
    return next((at for at, (one, other) in pairs if one != other), len(min(ends)))
