"""RFC 6962 trees."""

from collections.abc import Sequence
from hashlib import sha256

#: The root of a log without leaves: SHA-256 of the empty string.
EMPTY_ROOT = sha256(b"").hexdigest()


def leaf_hash(entry: str) -> str:
    return sha256(b"\0" + entry.encode()).hexdigest()


def node_hash(left: str, right: str) -> str:
    return sha256(b"\1" + bytes.fromhex(left) + bytes.fromhex(right)).hexdigest()


def fold(leaf: str, siblings: Sequence[str], directions: Sequence[bool]) -> str:
    """Folds siblings from a leaf up. A true direction means that the sibling is on the right."""
    for sibling, right in zip(siblings, directions):
        leaf = node_hash(leaf, sibling) if right else node_hash(sibling, leaf)
    return leaf


def directions_of(index: int, size: int) -> list[bool]:
    """Returns the directions of a leaf's path in a tree.

    A node that is the last of its level and has no sibling takes no step (RFC 9162, section
    2.1.3.2).
    """
    right, node, last = [], index, size - 1
    while last > 0:
        if node % 2 == 1:
            right.append(False)
        elif node < last:
            right.append(True)
        node, last = node // 2, last // 2
    return right


def consistency_roots(old: int, new: int, root: str, proof: Sequence[str]) -> tuple[str, str] | None:
    """Folds a proof that the first `old` leaves are a prefix of the first `new`.

    Returns the two roots that the proof leads to (RFC 9162, section 2.1.4.2), or None if the
    proof has the wrong number of hashes. The caller compares the roots.
    """
    if old < 1 or old > new:
        return None
    if old == new:
        return (root, root) if not proof else None
    fn, sn = old - 1, new - 1
    while fn % 2 == 1:
        fn, sn = fn // 2, sn // 2
    # If fn is 0, the old tree is complete, and its own root begins the path.
    path = [root, *proof] if fn == 0 else list(proof)
    if not path:
        return None
    first = second = path[0]
    for sibling in path[1:]:
        if sn == 0:
            return None
        if fn % 2 == 1 or fn == sn:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while fn != 0 and fn % 2 == 0:
                fn, sn = fn // 2, sn // 2
        else:
            second = node_hash(second, sibling)
        fn, sn = fn // 2, sn // 2
    return (first, second) if sn == 0 else None


def is_consistent(old: int, new: int, old_root: str, new_root: str, proof: Sequence[str]) -> bool:
    """Whether a proof shows that the tree of `old_root` is a prefix of the tree of `new_root`."""
    if old == 0:
        return old_root == EMPTY_ROOT and not proof and (new > 0 or new_root == EMPTY_ROOT)
    return consistency_roots(old, new, old_root, proof) == (old_root, new_root)


class RootOfLeaves:
    """Computes the root of a log whose leaves arrive one by one. It holds at most one hash per level."""

    def __init__(self) -> None:
        self.size = 0
        self._complete: list[str] = []  # roots of complete subtrees, the largest first

    def add(self, leaf: str) -> None:
        n = self.size
        while n % 2 == 1:
            leaf = node_hash(self._complete.pop(), leaf)
            n //= 2
        self._complete.append(leaf)
        self.size += 1

    def root(self) -> str:
        if not self._complete:
            return EMPTY_ROOT
        *rest, root = self._complete
        for left in reversed(rest):
            root = node_hash(left, root)
        return root
