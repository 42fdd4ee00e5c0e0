"""The prompts of the two agents that ask a language model."""

from __future__ import annotations

from typing import Final

from gatemark.plugins.runlog.records.run import SUMMARY_LIMITS

PROMPT_VERSION: Final = 1
NO_SUMMARIES: Final = "(no summaries yet)"
BUFFER_SYSTEM: Final = """\
You watch the work of several agents and decide whether a person who follows it should be
interrupted now. You get the latest summaries this person has read, text that is being held back,
and new text. Answer with one JSON object and nothing else:
{"rationale": text of at most 240 characters,
 "stream_state": "SAME_TOPIC_CONTINUING" or "TOPIC_SHIFT" or "CRITICAL_ALERT",
 "is_complete": whether held and new text together end a finished thought, inference or action,
 "is_relevant": whether it is worth an interruption: a new or changed plan or position, an abnormal
  finding, a matter of safety%s}
When you are not sure, answer false."""
NOVELTY_LINE: Final = """,
 "is_novel": whether it is a new kind of decision compared with the summaries, not more detail"""
SUMMARY_SYSTEM: Final = """\
You write updates for a person who follows the work of several agents. Say only what the new text
says. Answer with one JSON object and nothing else. Every field is text with at most this many
characters, and says so briefly when there is nothing new:
""" + "\n".join(f"{field}: {limit}" for field, limit in SUMMARY_LIMITS.items())
REWRITE_SYSTEM: Final = """\
You shorten fields of an update without losing what matters. Answer with the whole JSON object and
nothing else."""


def write_buffer_prompt(
    history: list[str], context: str, new: str, reason: str, history_k: int
) -> str:
    """Return the prompt of a buffer agent about one flush."""
    summaries = "\n".join(history) or NO_SUMMARIES
    return (
        f"Latest summaries, at most {history_k}, newest last:\n{summaries}\n\n"
        f"Held back so far:\n{context}\n\n"
        f"New text, let through because of {reason}:\n{new}\n"
    )


def write_summary_prompt(history: list[str], latest: str | None, new: str) -> str:
    """Return the prompt of a summarizer about its segments."""
    earlier = "\n".join(history) or NO_SUMMARIES
    return (
        f"Earlier summaries:\n{earlier}\n\n"
        f"Latest summary:\n{latest or NO_SUMMARIES}\n\n"
        f"New text:\n{new}\n"
    )


def write_rewrite_prompt(draft: str, too_long: dict[str, int]) -> str:
    """Return the prompt to rewrite fields that are too long."""
    wanted = "\n".join(
        f"{field}: at most {SUMMARY_LIMITS[field]} characters, it has {length}"
        for field, length in too_long.items()
    )
    return (
        f"This update has fields that are too long:\n{draft}\n\nShorten these fields:\n{wanted}\n"
    )


def render_history(fields: dict[str, str]) -> str:
    """Return a summary as later prompts show it, with contributions."""
    return "\n".join(f"{field}: {text}" for field, text in fields.items())
