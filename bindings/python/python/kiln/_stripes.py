"""Bytes as the data chunks of a stripe, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._errors import UsageError
from ._kiln import Codec

if TYPE_CHECKING:
    from typing_extensions import Buffer


def split(codec: Codec, data: Buffer, chunk_len: int | None = None) -> list[memoryview]:
    """The k data chunks of one stripe with these bytes at its start, the rest zeros.

    Chunks that are full are views of ``data``; only the last one with bytes is copied. Without
    ``chunk_len`` chunks are as short as they can be.

    >>> [bytes(chunk) for chunk in split(Codec("rs:2+1"), b"abc")]
    [b'ab', b'c\\x00']
    """
    view = memoryview(data)
    if not view.c_contiguous:
        raise UsageError("data: its bytes are not contiguous; copy them first")
    view = view.cast("B")
    size = codec.chunk_len(len(view)) if chunk_len is None else chunk_len
    if size <= 0 or size % codec.alpha:
        raise UsageError(f"chunk_len={size}: a multiple of {codec.alpha} is needed, more than 0")
    if size * codec.k < len(view):
        raise UsageError(f"{codec.k} chunks of {size} bytes do not hold {len(view)} bytes")
    chunks = []
    for start in range(0, size * codec.k, size):
        part = view[start : start + size]
        if len(part) < size:
            padded = bytearray(size)
            padded[: len(part)] = part
            part = memoryview(padded)
        chunks.append(part)
    return chunks


def join(chunks: Sequence[Buffer], size: int) -> bytes:
    """The first ``size`` bytes of data chunks, one after the other: the opposite of ``split``.

    >>> join([b"ab", b"c\\x00"], 3)
    b'abc'
    """
    return b"".join(chunks)[:size]
