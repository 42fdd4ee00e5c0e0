"""``gatemark advisory queue``: what people should decide, as samples to label."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import show
from gatemark.core.errors import ExitCode
from gatemark.plugins.advisory.dry_run.queue import ReviewQueue, build_queue
from gatemark.report.outputs import write_text


@click.command("queue", cls=StrictCommand)
@click.argument("files", nargs=-1, required=True, metavar="DECISIONS…")
@click.option(
    "--fixtures",
    metavar="builtin|PATH",
    default="builtin",
    show_default=True,
    help="Fixtures that the services were asked about.",
)
@click.option("--shadow", metavar="FILE", help="Inputs of a shadow, in place of fixtures.")
@click.option(
    "--all", "with_decided", is_flag=True, help="Include inputs with an expected decision."
)
@click.option("-o", "--output", required=True, metavar="FILE", help="File of samples to write.")
@json_option
def queue_command(
    files: tuple[str, ...],
    *,
    fixtures: str,
    shadow: str | None,
    with_decided: bool,
    output: str,
    json: bool,
) -> int:
    """Write the inputs that need human review, as samples to label.

    Takes records with human_review_required, each input once. A reviewer sees the input, not the
    recommendation. Accepted labels are read by 'gatemark advisory run --labels' as human_label.

    \b
    Examples:
      gatemark advisory queue dry-run/decisions.jsonl -o queue.jsonl
      gatemark advisory queue own/decisions.jsonl --fixtures own.jsonl -o queue.jsonl
      gatemark review labels create doubts queue.jsonl --field target \\
        --label escalate/high --label suppress/info --source "dry run of May"
    """
    queue = build_queue(
        files, shadow or fixtures, is_shadow=shadow is not None, with_decided=with_decided
    )
    write_text(output, queue.encode_samples().decode())
    document = {
        "items": len(queue.fixtures),
        "lanes": queue.lanes,
        "with_expected_decision": queue.decided,
    }
    show(document, lambda _: _render_queue(queue, output, with_decided=with_decided), json=json)
    return ExitCode.PASS


def _render_queue(queue: ReviewQueue, output: str, *, with_decided: bool) -> list[str]:
    lines = [f"{output}: {len(queue.fixtures)} inputs to label"]
    lines += [f"  {lane}: {count}" for lane, count in queue.lanes.items()]
    if queue.decided and not with_decided:
        lines.append(
            f"left out: {queue.decided} with an expected decision, which a label does not replace "
            "(--all takes them)"
        )
    return lines
