"""One meaning per option name: where a name has two, all but one have a clear name beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click

from gatemark.cli.main import gatemark as root

ONE_MEANING = frozenset(
    {
        # What each is about follows from its command; what it does is the same.
        *("--actor", "--alerts", "--allow-stub", "--alpha", "--arm", "--as", "--asset", "--bare"),
        *("--baseline", "--bootstrap-samples", "--candidate", "--cite"),
        *("--configs", "--costs", "--coverage-gate", "--created-at", "--dry-run", "--extractor"),
        *("--fixtures", "--guarded", "--jobs", "--kind", "--limit", "--manifest", "--max-errors"),
        *("--min-decisive", "--name", "--noise", "--note", "--on-bad-line", "--on-unpaired"),
        *(
            "--out",
            "--output",
            "--pack",
            "--peeking",
            "--policy",
            "--port",
            "--profile",
        ),
        *(
            "--reason",
            "--repeat",
            "--result",
            "--schedules",
            "--schema",
            "--score",
            "--seal",
        ),
        *("--seed", "--signing-key", "--since", "--stoplists", "--traces", "--variant", "-j", "-o"),
    }
)
CLEAR_NAMES = {
    "--cache": {"run": None, "score advisory": "--cache-facts"},
    "--compat": {
        **dict.fromkeys(("score overhead", "overhead run"), None),
        **dict.fromkeys(("runlog run", "runlog metrics", "runlog stoplists"), "--compat-mode"),
        **dict.fromkeys(("runlog errors", "runlog validate"), "--compat-mode"),
    },
    "--from": {
        **dict.fromkeys(("import", "compare", "view", "init"), None),
        "asset add": "--from-result",
    },
    "--gate": {"asset waive": None, "runlog metrics": "--bound"},
    "--id": {
        **dict.fromkeys(("import", "compare", "view"), "--id-path"),
        "attribute": "--decision-id",
        "schedule fire": "--idempotency-key",
    },
    "--key": {"ledger prove": None, "ledger verify": None, "comment": "--comment-key"},
    "--labels": {
        "score agreement": None,
        **dict.fromkeys(("advisory run", "advisory shadow"), "--reference-labels"),
    },
    "--mode": {
        **dict.fromkeys(("score overhead", "overhead run"), None),
        **dict.fromkeys(("runlog validate", "runlog replay", "runlog run"), "--strictness"),
        **dict.fromkeys(("runlog stoplists", "runlog manifest"), "--strictness"),
        "advisory run": "--service-mode",
        **dict.fromkeys(
            (f"drift {verb}" for verb in ("probe", "status", "report", "policy", "metrics")),
            "--sigma-mode",
        ),
        "drift events": "--sigma-mode",
    },
    "--model": {
        "runlog run": None,
        **dict.fromkeys(
            ("runlog metrics", "runlog stoplists", "runlog errors"), "--extractor-model"
        ),
    },
    "--runs": {
        "attribute": "--other-decisions",
        **dict.fromkeys(("runlog metrics", "runlog errors"), "--run-logs"),
        **dict.fromkeys(("advisory run", "advisory shadow"), "--rounds"),
        "schedule list": "--latest",
    },
    "--source": {"report": "--sarif-source", "review labels create": "--origin"},
    "--to": {
        **dict.fromkeys(("promote", "approve", "demote"), None),
        "rollback": "--to-version",
        "import": "--record-type",
    },
}


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        place = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands(command, place)
        else:
            yield place, command


def options() -> dict[str, dict[str, click.Option]]:
    """Every option name, with the option it is in each command."""
    found: dict[str, dict[str, click.Option]] = defaultdict(dict)
    for place, command in commands(root):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for name in parameter.opts:
                    found[name][place] = parameter
    return found


def test_a_name_with_several_descriptions_was_looked_at() -> None:
    differing = {
        name
        for name, places in options().items()
        if len({option.help for option in places.values()}) > 1
    }
    clear = {name for places in CLEAR_NAMES.values() for name in places.values()}
    new = differing - ONE_MEANING - set(CLEAR_NAMES) - clear
    assert not new, (
        f"{sorted(new)}: does each mean one thing in all commands? Then list it in ONE_MEANING; "
        "else give all meanings but one a clear name beside it, and list that in CLEAR_NAMES"
    )
    assert not (ONE_MEANING | set(CLEAR_NAMES)) - differing


def test_every_other_meaning_has_a_clear_name() -> None:
    known = options()
    for name, places in CLEAR_NAMES.items():
        assert set(places) == set(known[name]), name
        for place, clear in places.items():
            if clear is not None:
                assert known[clear][place] is known[name][place], (name, place)


def test_a_clear_name_is_used_for_its_meaning_alone() -> None:
    known = options()
    for places in CLEAR_NAMES.values():
        for clear in {clear for clear in places.values() if clear is not None}:
            assert set(known[clear]) == {one for one, name in places.items() if name == clear}


def test_every_option_has_a_description() -> None:
    bare = {
        (place, name)
        for name, places in options().items()
        for place, option in places.items()
        if not option.help and not option.hidden
    }
    # The exams over folders are called by 'runlog metrics', which describes them.
    assert {place for place, _ in bare} <= {"score runlog"}
