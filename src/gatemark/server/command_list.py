"""Commands of the server."""

from __future__ import annotations

from gatemark.cli.commands import ListedCommand

COMMANDS = (
    ListedCommand(
        "view",
        "gatemark.server.cli.view",
        "Packs and results",
        "Show one result or log in a browser, without a store or an account.",
    ),
    ListedCommand(
        "serve",
        "gatemark.server.cli.serve",
        "Watch",
        "Serve the web page: dashboards, approvals, runs, ledger.",
    ),
)
