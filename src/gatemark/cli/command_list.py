"""Commands of the kernel."""

from __future__ import annotations

from gatemark.cli.commands import ListedCommand

COMMANDS = (
    ListedCommand(
        "init",
        "gatemark.cli.init",
        "Start here",
        "Write a pack to try, with its data and a CI snippet.",
    ),
    ListedCommand(
        "compare",
        "gatemark.cli.compare",
        "Start here",
        "Compare a candidate's samples with a baseline's, item by item.",
    ),
    ListedCommand(
        "run", "gatemark.cli.run", "Start here", "Run a pack: answer, score, judge, seal."
    ),
    ListedCommand(
        "import",
        "gatemark.cli.import_logs",
        "Evidence",
        "Convert other tools' logs into samples, and account for every row.",
    ),
    ListedCommand(
        "validate", "gatemark.cli.validate", "Evidence", "Check evidence files line by line."
    ),
    ListedCommand(
        "schema",
        "gatemark.cli.listings",
        "Evidence",
        "List the evidence schemas, or print one as JSON Schema.",
    ),
    ListedCommand(
        "score", "gatemark.cli.score", "Evidence", "Score evidence and judge it, without a store."
    ),
    ListedCommand("lint", "gatemark.cli.lint", "Packs and results", "Check a pack before it runs."),
    ListedCommand(
        "gate",
        "gatemark.cli.run",
        "Packs and results",
        "Judge recorded evidence again with a pack, without calling a target.",
    ),
    ListedCommand(
        "list", "gatemark.cli.results", "Packs and results", "List the sealed results of a store."
    ),
    ListedCommand("show", "gatemark.cli.results", "Packs and results", "Show one sealed result."),
    ListedCommand(
        "report",
        "gatemark.cli.results",
        "Packs and results",
        "Write a sealed result as JSON, Markdown, HTML, JUnit or SARIF.",
    ),
    ListedCommand(
        "comment",
        "gatemark.cli.comment",
        "Packs and results",
        "Print a result as Markdown for a pull request, or post it there.",
    ),
    ListedCommand(
        "ledger",
        "gatemark.cli.ledger",
        "Audit and settings",
        "Verify, sign, export and list the ledger of a store.",
    ),
    ListedCommand(
        "store",
        "gatemark.cli.store",
        "Audit and settings",
        "Inspect, upgrade, back up and restore a store.",
    ),
    ListedCommand(
        "doctor",
        "gatemark.cli.doctor",
        "Audit and settings",
        "Check this installation: versions, extras, store, temporary folder.",
    ),
    ListedCommand(
        "baseline",
        "gatemark.cli.baseline",
        "Packs and results",
        "Name the sealed results that candidates are compared with.",
    ),
    ListedCommand(
        "scorers",
        "gatemark.cli.listings",
        "Packs and results",
        "List the scorers with their options.",
    ),
    ListedCommand(
        "targets",
        "gatemark.cli.listings",
        "Packs and results",
        "List the kinds of targets that a pack can name, with their options.",
    ),
    ListedCommand(
        "plugins",
        "gatemark.cli.listings",
        "Audit and settings",
        "List the installed plugins: what they add, and from which module.",
    ),
)
