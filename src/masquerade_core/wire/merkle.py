"""A Merkle tree: one hash of many rows, under which each row can be shown by itself.

A leaf is the hash of a row with its place, and each node above is the hash of the two below it. Where a level has an
odd number of hashes, the last one moves up as it is. The root is the hash of the number of rows and of the last node.
A row's *path* holds the other hash at each level on the way up, from the leaf on.

Leaves, nodes and the root are hashed under different tags. So nobody can show a node as a row, or a row as a node: that
would be a second set of rows with the same root (a second preimage). The verifier of a path knows the number of rows
from elsewhere, and it decides the path's length at each place.
"""

import hashlib
from collections.abc import Iterator, Sequence

from masquerade_core.wire.frames import HASH_BYTES

__all__ = ["is_under", "path_to", "root_of", "tree_of"]

_COUNT_BYTES = 4


def _hash(tag: bytes, *parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=HASH_BYTES, person=tag).digest()


def _leaf(place: int, row: bytes) -> bytes:
    return _hash(b"masq leaf", place.to_bytes(_COUNT_BYTES, "big"), row)


def _top(count: int, node: bytes) -> bytes:
    return _hash(b"masq root", count.to_bytes(_COUNT_BYTES, "big"), node)


def tree_of(rows: Sequence[bytes]) -> tuple[tuple[bytes, ...], ...]:
    """Return all levels of the tree, the leaves first, and the root alone in the last one.

    Parameters
    ----------
    rows : sequence of bytes
        At least one.
    """
    level = tuple(_leaf(place, row) for place, row in enumerate(rows))
    levels = [level]
    while len(level) > 1:
        pairs = [_hash(b"masq node", level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = (*pairs, *level[len(level) & ~1 :])
        levels.append(level)
    return (*levels, (_top(len(rows), level[0]),))


def root_of(rows: Sequence[bytes]) -> bytes:
    """Return the root over all rows."""
    return tree_of(rows)[-1][0]


def path_to(tree: Sequence[Sequence[bytes]], place: int) -> bytes:
    """Return the path to the row at a place; ``tree`` is as :func:`tree_of` returns it."""
    path = b""
    for level in tree[:-2]:
        if (other := place ^ 1) < len(level):
            path += level[other]
        place >>= 1
    return path


def _sides(place: int, count: int) -> Iterator[bool | None]:
    """Yield for each level whether the other hash stands to the left; None where there is no other one."""
    while count > 1:
        yield None if place ^ 1 >= count else bool(place & 1)
        place, count = place >> 1, (count + 1) >> 1


def is_under(root: bytes, count: int, place: int, row: bytes, path: bytes) -> bool:
    """Say whether ``row`` is the one at ``place`` of the ``count`` rows under ``root``."""
    node, at = _leaf(place, row), 0
    for left in _sides(place, count):
        if left is None:
            continue
        other = path[at : at + HASH_BYTES]
        at += HASH_BYTES
        node = _hash(b"masq node", *((other, node) if left else (node, other)))
    return at == len(path) and _top(count, node) == root
