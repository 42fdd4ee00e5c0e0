"""Every act and where its doors are; and what is no act, or has only one door, and why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tests.server.scene import ASSET


class Doors(NamedTuple):
    """Where one act is found, and what its options are called where their name is shorter.

    A door that an act does not have is empty. ``route`` begins with its method, unless that is
    POST. ``form`` is the address that a form sends to, ``path`` the one that the server routes.
    """

    command: str = ""
    route: str = ""
    page: str = ""
    form: str = ""
    path: str = ""
    viewer: str = "olu"
    options: Mapping[str, str] = MappingProxyType({})

    @property
    def method(self) -> str:
        """The method of the route."""
        return self.route.split()[0] if " " in self.route else "POST"

    @property
    def address(self) -> str:
        """The address of the route, below the interface."""
        return self.route.split()[-1]


VERSION = "/assets/{asset}/versions/{version}"
HERE = f"/assets/{ASSET}"
NAMED = {"reviewer": "reviewers"}
ACTS = {
    "promote": Doors(
        "promote",
        f"{VERSION}/promotion",
        HERE,
        f"{HERE}/promote",
        "/assets/{asset}/promote",
        options={"cite": "result_ids", "break_glass": "incident"},
    ),
    "approve": Doors(
        "approve",
        f"{VERSION}/votes",
        f"/approvals/{ASSET}/4.0.0",
        f"/approvals/{ASSET}/4.0.0",
        "/approvals/{asset}/{version}",
        options={"cite": "result_ids", "to": "stage"},
    ),
    "demote": Doors(
        "demote",
        "/assets/{asset}/demotion",
        HERE,
        f"{HERE}/demote",
        "/assets/{asset}/demote",
        options={"reason": "note"},
    ),
    "rollback": Doors(
        "rollback", "/assets/{asset}/rollback", HERE, f"{HERE}/rollback", "/assets/{asset}/rollback"
    ),
    "pause": Doors(
        "asset pause", f"{VERSION}/pause", HERE, f"{HERE}/pause", "/assets/{asset}/pause"
    ),
    "resume": Doors(
        "asset resume", f"{VERSION}/resumption", HERE, f"{HERE}/resume", "/assets/{asset}/resume"
    ),
    "waive": Doors(
        "asset waive", f"{VERSION}/waiver", HERE, f"{HERE}/waive", "/assets/{asset}/waive"
    ),
    "confirm-break-glass": Doors(
        "approve",
        f"{VERSION}/break-glass-review",
        HERE,
        f"{HERE}/confirm-break-glass",
        "/assets/{asset}/confirm-break-glass",
    ),
    "add": Doors(
        "asset add",
        VERSION,
        "/new-version",
        "/new-version",
        "/new-version",
        options={"pin": "pins", "scope_change": "is_scope_change"},
    ),
    "required-pack": Doors(
        "asset pack",
        "/assets/{asset}/required-pack",
        HERE,
        f"{HERE}/required-pack/set",
        "/assets/{asset}/required-pack/set",
        viewer="eve",
    ),
    "service": Doors("asset service", "/assets/{asset}/service-reports"),
    "windows": Doors("canary push", "/assets/{asset}/canary/windows"),
    "pairs": Doors("shadow push", f"{VERSION}/shadow"),
    "due": Doors("canary tick", "/assets/{asset}/canary/due"),
    "points": Doors("drift push", "/drift/points"),
    "close-episode": Doors("drift close", "/drift/episodes/{episode}/closing"),
    "policy": Doors("policy adopt", "/policy"),
    "roles": Doors(
        "role grant",
        "PUT /people/{person}/roles",
        "/people",
        "/people/bob/roles",
        "/people/{person}/roles",
        viewer="root",
    ),
    "add-person": Doors("", "/people", "/people", "/people", "/people", viewer="root"),
    "link": Doors(
        "",
        "/people/{person}/links",
        "/people",
        "/people/bob/link",
        "/people/{person}/link",
        viewer="root",
    ),
    "close-person": Doors(
        "",
        "DELETE /people/{person}",
        "/people",
        "/people/bob/close",
        "/people/{person}/close",
        viewer="root",
    ),
    "token": Doors("", "/tokens", "/tokens", "/tokens", "/tokens"),
    "revoke": Doors("", "DELETE /tokens/{token}", path="/tokens/{token}/revoke"),
    "review": Doors(
        "review create",
        "/reviews",
        "/new-review",
        "/new-review",
        "/new-review",
        viewer="eve",
        options={**NAMED, "asset": "assets"},
    ),
    "vote": Doors(
        "review vote",
        "/reviews/{review}/votes",
        "/reviews/letters?begin=yes",
        "/reviews/letters",
        "/reviews/{review}",
        options={"answer": "answered"},
    ),
    "look": Doors(
        "review status",
        "/reviews/{review}/looks",
        "/reviews/open",
        "/reviews/open/look",
        "/reviews/{review}/look",
    ),
    "close-review": Doors(
        "review close",
        "/reviews/{review}/closing",
        "/reviews/letters",
        "/reviews/letters/close",
        "/reviews/{review}/close",
        viewer="eve",
    ),
    "labels": Doors(
        "review labels create",
        "/labels",
        "/new-labels",
        "/new-labels",
        "/new-labels",
        viewer="eve",
        options={**NAMED, "label": "labels"},
    ),
    "label": Doors(
        "review labels give",
        "/labels/{labels}/marks",
        "/labels/tone",
        "/labels/tone",
        "/labels/{labels}",
    ),
    "accept-labels": Doors(
        "review labels accept",
        "/labels/{labels}/acceptance",
        "/labels/tone/items",
        "/labels/tone/items",
        "/labels/{labels}/items",
        viewer="eve",
        options={"choose": "chosen"},
    ),
    "verdicts": Doors(
        "review attribution",
        "/attributions/{attribution}/verdicts",
        "/attributions",
        "/attributions",
        "/attributions/{attribution}",
        viewer="eve",
    ),
    "checkpoint": Doors(
        "ledger checkpoint",
        "/ledger/checkpoints",
        "/ledger",
        "/ledger/checkpoints",
        "/ledger/checkpoints",
        viewer="root",
    ),
    "verify": Doors(
        "ledger verify", "/ledger/verification", "/ledger", "/ledger/verify", "/ledger/verify"
    ),
    "run": Doors("run", "/runs", "/runs", "/runs", "/runs", viewer="eve"),
    "resume-run": Doors("run", "/runs/{run}/resumption", path="/runs/{run}/resume"),
}
"""An act is what somebody does to a store, or has checked, and can do at more than one door."""


class Alone(NamedTuple):
    """Fields that one door of an act has alone, and why."""

    door: str
    fields: frozenset[str]
    why: str


def _alone(door: str, fields: str, why: str) -> Alone:
    return Alone(door, frozenset(fields.split()), why)


SENT = "the command reads files of whoever asks, the other two carry their content"
READING = "how a command reads its files"
WHOLE = "a vote and the confirmation of break-glass access are one command with two options"
ALONE: dict[str, tuple[Alone, ...]] = {
    "add": (_alone("command line", "file files schema", SENT),),
    "confirm-break-glass": (
        _alone(
            "command line",
            "cite to stage result_ids decision candidate_digest policy_digest",
            WHOLE,
        ),
    ),
    "windows": (_alone("command line", "file", SENT), _alone("HTTP", "windows", SENT)),
    "pairs": (_alone("command line", "file version", SENT), _alone("HTTP", "spans", SENT)),
    "points": (
        _alone("command line", "files", SENT),
        _alone("HTTP", "points", SENT),
        _alone("command line", "duplicate_key_check max_errors", READING),
        _alone("command line", "now", "a file of last month is pushed as of then"),
    ),
    # The command needs no role: there the system acts, out of cron.
    "due": (_alone("command line", "now", "what was due at a time is done later"),),
    "close-episode": (_alone("command line", "now", "the time of what was probed with --now"),),
    "policy": (_alone("command line", "file", SENT), _alone("HTTP", "policy", SENT)),
    "review": (
        _alone("command line", "candidate baseline gold", SENT),
        _alone("HTTP", "candidates baseline samples gold", SENT),
        _alone("page", "samples:candidate samples:baseline gold", SENT),
        _alone("page", "assets:candidate assets:baseline", "one entry of a map each"),
        _alone("command line", "assets", "the same map"),
        _alone("HTTP", "assets", "the same map"),
    ),
    "labels": (
        _alone("command line", "samples", SENT),
        _alone("HTTP", "samples", SENT),
        _alone("page", "samples", SENT),
    ),
    "verdicts": (
        _alone("command line", "accept reject", "the kinds of each verdict: the same map"),
        _alone("HTTP", "verdicts", "the same map"),
        _alone("page", "verdicts", "the same map"),
        _alone("command line", "output", "a report of it as a file"),
        _alone("command line", "dataset rule_backlog", "it adds what was accepted to a file"),
    ),
    "look": (_alone("command line", "look", "without it, the command only shows progress"),),
    "checkpoint": (
        _alone("command line", "signing_key signer_command", "a server signs with its own key"),
        _alone("command line", "output", SENT),
    ),
    "verify": (
        _alone("command line", "folder keys since", "files that only whoever asks has"),
        _alone("command line", "require_checkpoint rescore", "an audit of hours is no request"),
    ),
    "run": (
        _alone("command line", "candidate baseline waivers output", SENT),
        _alone(
            "command line",
            "against answered_at as_version cache cells engine jobs need resume",
            "they belong to whoever owns the machine, and vouches for the answers",
        ),
    ),
    "resume-run": (
        _alone(
            "command line",
            "pack limit candidate baseline waivers output "
            "against answered_at as_version cache cells engine jobs need resume",
            "a server knows which run it was; the command is run again, with --resume",
        ),
    ),
}
OTHERWISE = {
    ("approve", "stage"): "a command with this option, or with --confirm-break-glass",
    ("promote", "incident"): "the form of break-glass access is beside that of a usual promotion",
    ("vote", "answered"): "the command asks for one vote after the other without it",
    ("vote", "token"): "the command takes the open pair; a page may be older than that",
    ("close-review", "early"): "a form is made for a review, and knows that votes are missing",
    ("roles", "roles"): "a command says an empty list by leaving it out, and a form, too",
    ("add-person", "roles"): "the same",
    ("token", "scopes"): "a browser cannot demand that one of several boxes is ticked",
    ("label", "label"): "it is the button that sends the form",
    ("accept-labels", "chosen"): "a form asks it of the samples that need it",
}
"""Where a door cannot say what is required as the others do, and why."""

NO_ACTS = {
    "POST /session": "it says who asks: nothing else changes, and a command has --actor",
    "DELETE /session": "the same, at the end",
    "POST /join": "the same, by a link",
    "POST /sign-in": "it says who asks",
    "POST /sign-out": "the same, at the end",
    "POST /join/{secret}": "the same, by a link",
    "POST /results/{reference}/verification": "it reads: 'gatemark ledger verify' has all of them",
    "POST /results/{reference}/verify": "the same, for the page",
}
"""Routes that do nothing to a store, with the reason."""
ONLY_COMMANDS = {
    "release": "several acts, one after the other; each is claimed above",
    "baseline accept": "names of baselines belong to a folder of packs",
    "baseline set": "the same",
    "attribute": "it reads files and asks targets of whoever runs it",
    "calibration refit": "it reads files; the version that it drafts goes the way of all",
    "ledger erase": "it belongs to whoever owns the store, as those that follow",
    "ledger keygen": "the same",
    "ledger resync-clock": "the same",
    "ledger rotate": "the same",
    "store restore": "the same",
    "store upgrade": "the same",
    "gate": "it judges files of whoever runs it",
    "drift derive": "it counts files of whoever runs it",
    "drift probe": "cron runs it: the system acts",
    "schedule fire": "the same",
    "schedule run": "the same",
    "schedule tick": "the same",
    "advisory run": "it records answers of services of whoever runs it",
    "advisory shadow": "the same",
    "advisory queue": "it makes label sets from such a record",
    "score advisory": "--seal keeps the verdict on a file of whoever runs it",
    "score agreement": "the same",
    "score calibration": "the same",
    "score overhead": "the same",
    "score preference": "the same",
    "score runlog": "the same",
    "overhead run": "the same, of what it measured",
    "runlog run": "the same",
    "compare": "the same",
    "serve": "it is the server: it makes the link of the first admin",
    "demo": "it has a store of its own",
}
"""Commands that change a store and have no other door, with the reason."""
ONLY_READ = frozenset(
    """
    validate|schema|import|overhead verify|init|lint|scorers|targets|plugins|list|show|report|view
    comment|baseline list|baseline show|asset history|asset list|asset show|canary assign
    canary show|route|why|role list|policy check|policy show|review export|review labels export
    review labels next|review labels status|review next|ledger export|ledger log|ledger prove
    store backup|store info|runlog traces|runlog manifest|runlog validate|runlog migrate
    runlog replay|runlog metrics|runlog stoplists|runlog errors|advisory trend|advisory diff
    advisory lint|advisory packet|advisory gateway|drift status|drift report|drift policy
    drift metrics|drift events|calibration apply|schedule list|doctor
    """.strip()
    .replace("\n", "|")
    .replace("|    ", "|")
    .split("|")
)
"""Commands that change nothing in a store."""
