from __future__ import annotations

from tests.release.lifecycle.replay import replay
from tests.server.scene import ASSET, Scene

from gatemark.core.canonical import digest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AddVersion, GrantRoles
from gatemark.release.lifecycle.state_cache import AssetStateCache, asset_state_cache


def same(books: AssetStateCache, scene: Scene) -> None:
    found, true = books.read(ASSET), replay(scene.workspace.events, ASSET)
    assert (found.asset, found.governance) == (true.asset, true.governance)
    assert books.names() == {ASSET}


def test_pinned_books_say_what_the_ledger_says_whatever_was_read_before(scene: Scene) -> None:
    scene.enable("1.0.0")
    early, late, fresh = (AssetStateCache(scene.workspace.events) for _ in range(3))
    early.read(ASSET)
    late.pin()
    grant = GrantRoles(actor="root", person="zoe", roles=("viewer",))
    act(scene.workspace, grant)
    scene.to_shadow("1.1.0")
    for books in (early, late, fresh):
        books.pin()
        same(books, scene)
    act(scene.workspace, GrantRoles(actor="root", person="zoe", roles=()))
    scene.seal("1.1.0")
    scene.to_shadow("1.2.0")
    for books in (early, late, fresh):
        books.pin()
        same(books, scene)
        books.unpin()
        same(books, scene)


def test_what_is_pinned_stays_until_it_is_pinned_again(scene: Scene) -> None:
    scene.enable("1.0.0")
    books = AssetStateCache(scene.workspace.events)
    books.pin()
    before = books.mark(ASSET)
    content = digest("2.0.0")
    command = AddVersion(actor="ann", asset=ASSET, kind="prompt", version="2.0.0", digest=content)
    act(scene.workspace, command)
    assert books.mark(ASSET) == before
    assert "2.0.0" not in books.read(ASSET).asset.versions
    books.pin()
    assert "2.0.0" in books.read(ASSET).asset.versions
    assert books.mark(ASSET) != before
    assert asset_state_cache(scene.workspace) is not books
