from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatemark.ci.github import post_comment, pull_request_of
from gatemark.core.errors import BadInputError, UsageError
from gatemark.report.comment import make_marker

from .github_server import TOKEN, GithubComments, github_comments

MARKER = make_marker("evals")
TEXT = f"{MARKER}\n\nnew text"


@pytest.fixture
def github() -> Iterator[GithubComments]:
    with github_comments() as state:
        yield state


@pytest.fixture
def environ(github: GithubComments, tmp_path: Path) -> dict[str, str]:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"action": "opened", "pull_request": {"number": 7}}))
    return {
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": "acme/help-desk",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_ACTOR": "ann",
    }


def test_the_first_run_posts_and_the_second_replaces(
    github: GithubComments, environ: dict[str, str]
) -> None:
    pull = pull_request_of(environ)
    first = post_comment(pull, f"{MARKER}\n\nold text", MARKER)
    second = post_comment(pull, TEXT, MARKER)
    assert first == second
    assert [comment["body"] for comment in github.comments] == [TEXT]


def test_our_comment_is_found_behind_a_hundred_others(
    github: GithubComments, environ: dict[str, str]
) -> None:
    for number in range(150):
        github.add(f"remark {number}", "bob", "User")
    ours = github.add(f"{MARKER}\n\nold text")
    post_comment(pull_request_of(environ), TEXT, MARKER)
    assert github.comments[ours - 1]["body"] == TEXT
    assert len(github.comments) == 151


@pytest.mark.parametrize(
    ("login", "kind", "body"),
    [
        ("mallory", "User", MARKER),
        ("github-actions[bot]", "Bot", "see " + MARKER),
        ("github-actions[bot]", "Bot", make_marker("other")),
    ],
)
def test_comments_of_others_are_left_alone(
    github: GithubComments, environ: dict[str, str], login: str, kind: str, body: str
) -> None:
    github.add(body, login, kind)
    post_comment(pull_request_of(environ), TEXT, MARKER)
    assert [comment["body"] for comment in github.comments] == [body, TEXT]


def test_a_comment_by_the_person_whose_token_is_used_is_replaced(
    github: GithubComments, environ: dict[str, str]
) -> None:
    github.add(MARKER, "ann", "User")
    post_comment(pull_request_of(environ), TEXT, MARKER)
    assert [comment["body"] for comment in github.comments] == [TEXT]


@pytest.mark.parametrize("name", ["GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_TOKEN"])
def test_a_missing_variable_is_named(environ: dict[str, str], name: str) -> None:
    del environ[name]
    with pytest.raises(UsageError, match=name):
        pull_request_of(environ)


def test_an_event_without_a_pull_request_says_what_to_do(environ: dict[str, str]) -> None:
    Path(environ["GITHUB_EVENT_PATH"]).write_text('{"ref": "refs/heads/main"}')
    with pytest.raises(UsageError, match="on: pull_request"):
        pull_request_of(environ)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pull_request": {"number": "7"}}'])
def test_an_event_that_cannot_be_read_is_refused(environ: dict[str, str], text: str) -> None:
    Path(environ["GITHUB_EVENT_PATH"]).write_text(text)
    with pytest.raises(BadInputError, match="not an event of GitHub"):
        pull_request_of(environ)


def test_a_token_goes_only_to_https_or_loopback(environ: dict[str, str]) -> None:
    environ["GITHUB_API_URL"] = "http://api.example"
    with pytest.raises(UsageError, match="https"):
        pull_request_of(environ)


@pytest.mark.parametrize(
    ("status", "hint"), [(403, "pull-requests: write"), (404, "no pull request 7"), (500, "500")]
)
def test_a_refusal_says_what_to_do_and_shows_no_token(
    github: GithubComments, environ: dict[str, str], status: int, hint: str
) -> None:
    github.refuse_with = status
    pull = pull_request_of(environ)
    with pytest.raises(BadInputError, match=hint) as caught:
        post_comment(pull, TEXT, MARKER)
    assert TOKEN not in f"{caught.value} {pull!r} {pull}"


def test_the_token_does_not_follow_a_redirect(
    github: GithubComments, environ: dict[str, str]
) -> None:
    with github_comments() as elsewhere:
        github.redirect_to = f"{elsewhere.url}/steal"
        with pytest.raises(BadInputError, match="302"):
            post_comment(pull_request_of(environ), TEXT, MARKER)
        assert elsewhere.asked == []


def test_an_interface_that_is_down_is_named(environ: dict[str, str]) -> None:
    environ["GITHUB_API_URL"] = "http://127.0.0.1:9"
    with pytest.raises(BadInputError, match="cannot be reached"):
        post_comment(pull_request_of(environ), TEXT, MARKER)
