"""Commands of what happens after a verdict."""

from __future__ import annotations

from gatemark.cli.commands import ListedCommand

COMMANDS = (
    ListedCommand(
        "demo",
        "gatemark.release.cli.demo",
        "Start here",
        "Walk through the gate on bundled synthetic data.",
    ),
    ListedCommand(
        "calibration",
        "gatemark.release.cli.calibration",
        "Packs and results",
        "Recalibrate stated confidences, as a new version that must pass the gate.",
    ),
    ListedCommand(
        "asset",
        "gatemark.release.cli.asset",
        "Release",
        "Register versions, and show their stages and history.",
    ),
    ListedCommand(
        "release",
        "gatemark.release.cli.release",
        "Release",
        "Take a version as far as it may go now.",
    ),
    ListedCommand(
        "promote",
        "gatemark.release.cli.promote",
        "Release",
        "Move a version to a stage, citing sealed results.",
    ),
    ListedCommand(
        "approve",
        "gatemark.release.cli.promote",
        "Release",
        "Approve one step of one version, bound to its current results and policy.",
    ),
    ListedCommand(
        "shadow",
        "gatemark.release.cli.shadow",
        "Release",
        "Push measurements that compare a shadow with the live version.",
    ),
    ListedCommand(
        "canary",
        "gatemark.release.cli.canary",
        "Release",
        "Push, judge and show measurements of running canaries.",
    ),
    ListedCommand(
        "route",
        "gatemark.release.cli.route",
        "Release",
        "Show what to use now: primary, canary, shadow, fallback.",
    ),
    ListedCommand(
        "why",
        "gatemark.release.cli.why",
        "Release",
        "Show why a version is where it is: results, votes, gates.",
    ),
    ListedCommand(
        "rollback",
        "gatemark.release.cli.demotion",
        "Release",
        "Roll back at once: end the canary, or return to the previous version.",
    ),
    ListedCommand(
        "demote",
        "gatemark.release.cli.demotion",
        "Release",
        "Take a version out of service (default: the enabled one).",
    ),
    ListedCommand(
        "drift",
        "gatemark.release.cli.drift",
        "Watch",
        "Watch metrics of live assets and act when they drift.",
    ),
    ListedCommand(
        "schedule",
        "gatemark.release.cli.schedule",
        "Watch",
        "Run evaluations when they are due, each by exactly one worker.",
    ),
    ListedCommand(
        "review",
        "gatemark.release.cli.review",
        "Watch",
        "Let people compare answers blind, and turn their votes into a verdict.",
    ),
    ListedCommand(
        "attribute",
        "gatemark.release.cli.attribute",
        "Watch",
        "Find the step that made a wrong decision go wrong.",
    ),
    ListedCommand(
        "role",
        "gatemark.release.cli.role",
        "Audit and settings",
        "Grant roles, and list who has which role.",
    ),
    ListedCommand(
        "policy",
        "gatemark.release.cli.policy",
        "Audit and settings",
        "Show, check or adopt the release policy of a store.",
    ),
)
