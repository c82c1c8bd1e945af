"""Contents as readable files."""

from __future__ import annotations

import io

from typing_extensions import Buffer

from sparklake.graveler.ports import Content


class ContentReader(io.RawIOBase):
    """The content of an object as a readable file."""

    def __init__(self, content: Content, name: str) -> None:
        self._content = content
        self._at = 0
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._content)}
        if whence not in starts or starts[whence] + offset < 0:
            raise ValueError(f"the position {offset} from {whence} is invalid in {self.name!r}")
        self._at = starts[whence] + offset
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a buffer until it is full or the content ends."""
        view = memoryview(buffer).cast("B")
        read = self._content[self._at : self._at + len(view)]
        view[: len(read)] = read
        self._at += len(read)
        return len(read)

    def readall(self) -> bytes:
        read = self._content[self._at :]
        self._at += len(read)
        return read
