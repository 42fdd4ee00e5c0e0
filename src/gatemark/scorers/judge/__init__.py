"""A model as judge: pinned prompts, strict parsing of replies, votes, and its qualification.

Nothing here calls a model. ``ask`` is passed in, its replies are recorded, and the ``judge`` scorer
reads recorded replies, so that a result can be judged again without paying for it again. The
qualification is in ``judge.qualification``, which needs numpy and is imported only when used.
"""

from gatemark.scorers.judge.grading import (
    Grade,
    JudgeOptions,
    ask_for_grades,
    grade_replies,
)
from gatemark.scorers.judge.pairwise import (
    PairwiseOptions,
    PairwiseOutcome,
    Round,
    ask_for_preference,
    read_rounds,
)
from gatemark.scorers.judge.prompt import Ask, JudgeReply
from gatemark.scorers.judge.scorer import SCORER

__all__ = [
    "SCORER",
    "Ask",
    "Grade",
    "JudgeOptions",
    "JudgeReply",
    "PairwiseOptions",
    "PairwiseOutcome",
    "Round",
    "ask_for_grades",
    "ask_for_preference",
    "grade_replies",
    "read_rounds",
]
