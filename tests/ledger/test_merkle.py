from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.ledger.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    includes,
    inclusion_proof,
    is_consistent,
    leaf_hash,
    node_count,
    node_number,
    nodes_for,
    peaks_of,
    tree_root,
)

# The leaves and answers that implementations of RFC 6962 share.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
A = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
B = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
C = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
D = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
E = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
F = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
INCLUSION = [
    (0, 1, []),
    (0, 8, [A, B, C]),
    (5, 8, [D, E, ROOTS[3]]),
    (2, 3, [ROOTS[1]]),
    (1, 5, [ROOTS[0], B, D]),
]
CONSISTENCY = [
    (1, 1, []),
    (1, 8, [A, B, C]),
    (6, 8, [F, E, ROOTS[3]]),
    (2, 5, [B, D]),
]


class Tree:
    """A grown tree with all its nodes, and how often they were read."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.reads = 0
        self.frontier = Frontier()
        self._leaves = [leaf_hash(leaf) for leaf in leaves]
        self._nodes: dict[int, bytes] = {}
        for leaf in self._leaves:
            self._nodes.update(self.frontier.add(leaf))

    def read(self, level: int, index: int) -> bytes:
        self.reads += 1
        return self._leaves[index] if level == 0 else self._nodes[node_number(level, index)]


def by_definition(leaves: list[bytes]) -> bytes:
    """The tree hash, written down as the standard defines it."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    left, right = by_definition(leaves[:split]), by_definition(leaves[split:])
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_roots_are_those_of_the_standard() -> None:
    assert by_definition([]) == EMPTY_ROOT
    for size, root in enumerate(ROOTS, start=1):
        tree = Tree(LEAVES[:size])
        assert tree.frontier.root().hex() == root
        assert tree_root(size, tree.read).hex() == root


@pytest.mark.parametrize(("index", "size", "path"), INCLUSION)
def test_inclusion_proofs_are_those_of_the_standard(index: int, size: int, path: list[str]) -> None:
    tree = Tree(LEAVES[:size])
    assert [one.hex() for one in inclusion_proof(index, size, tree.read)] == path


@pytest.mark.parametrize(("earlier", "later", "path"), CONSISTENCY)
def test_consistency_proofs_are_those_of_the_standard(
    earlier: int, later: int, path: list[str]
) -> None:
    tree = Tree(LEAVES[:later])
    assert [one.hex() for one in consistency_proof(earlier, later, tree.read)] == path


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=4), min_size=1, max_size=70), st.data())
def test_every_proof_holds_and_no_other_does(leaves: list[bytes], data: st.DataObject) -> None:
    size = len(leaves)
    tree = Tree(leaves)
    root = by_definition(leaves)
    assert tree.frontier.root() == tree_root(size, tree.read) == root
    index = data.draw(st.integers(0, size - 1))
    path = inclusion_proof(index, size, tree.read)
    leaf = leaf_hash(leaves[index])
    assert includes(leaf, index, size, path, root)
    assert not includes(leaf, index, size, [*path, root], root)
    assert not includes(leaf_hash(b"other"), index, size, path, root)
    assert not includes(leaf, index, size, path, bytes(32))
    assert not includes(leaf, size, size, path, root)
    earlier = data.draw(st.integers(1, size))
    roots = (by_definition(leaves[:earlier]), root)
    proof = consistency_proof(earlier, size, tree.read)
    assert is_consistent((earlier, size), roots, proof)
    assert not is_consistent((earlier, size), (bytes(32), root), proof)
    assert not is_consistent((earlier, size), (roots[0], bytes(32)), proof)
    assert not is_consistent((earlier, size), roots, [*proof, root])
    if proof:
        assert not is_consistent((earlier, size), roots, proof[:-1])
        bent = [bytes(32), *proof[1:]]
        assert not is_consistent((earlier, size), roots, bent)


@pytest.mark.parametrize("size", [1_000, 1_000_000, 10**12 + 7])
def test_proofs_read_few_nodes_however_large_the_tree(size: int) -> None:
    most = 2 * size.bit_length()
    for index in (0, size // 3, size - 1):
        assert len(nodes_for(lambda read, i=index: inclusion_proof(i, size, read))) <= most
        assert len(nodes_for(lambda read, i=index: consistency_proof(i + 1, size, read))) <= most
    assert len(nodes_for(lambda read: tree_root(size, read))) <= size.bit_length()


def test_nodes_are_numbered_without_a_gap_in_the_order_they_are_completed() -> None:
    frontier = Frontier()
    numbers = []
    for leaf in range(1, 300):
        completed = frontier.add(leaf_hash(b""))
        numbers.extend(number for number, _ in completed)
        assert numbers == list(range(1, node_count(leaf) + 1))
        for level, (number, _) in enumerate(completed, start=1):
            assert number == node_number(level, (leaf >> level) - 1)


def test_a_frontier_goes_on_from_its_peaks() -> None:
    for size in range(1, 40):
        tree = Tree([bytes([n]) for n in range(size)])
        again = Frontier(size, [tree.read(*place) for place in peaks_of(size)])
        assert again.root() == tree.frontier.root()
        again.add(leaf_hash(b"next"))
        tree.frontier.add(leaf_hash(b"next"))
        assert again.root() == tree.frontier.root()


def test_a_proof_about_what_is_not_there_is_refused() -> None:
    tree = Tree(LEAVES)
    for wrong in ((8, 8), (-1, 8)):
        with pytest.raises(InvalidValueError):
            inclusion_proof(*wrong, tree.read)
    for wrong in ((0, 8), (9, 8)):
        with pytest.raises(InvalidValueError):
            consistency_proof(*wrong, tree.read)
    assert not is_consistent((0, 8), (EMPTY_ROOT, bytes(32)), [])
    assert not is_consistent((3, 8), (bytes(32), bytes(32)), [])
