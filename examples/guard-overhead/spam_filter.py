"""A spam filter in plain Python: accuracy with and without a guard on its word weights."""

import random

from gatemark.plugins.overhead.targets.port import AccuracyCounts, EvidenceWindow

SPAM = ("prize", "winner", "urgent", "free")
PLAIN = ("meeting", "report", "lunch", "train", "invoice", "notes")
MAILS_PER_WINDOW = 10


def make_mail(rng):
    """Return the words of a mail, and whether it is spam."""
    is_spam = rng.random() < 0.5
    words = rng.choices(PLAIN, k=6) + rng.choices(SPAM, k=rng.choice((1, 3)) if is_spam else 0)
    if not is_spam and rng.random() < 0.2:
        words.append(rng.choice(SPAM))
    return tuple(words), is_spam


class SpamFilter:
    """Add up the weights of the words; the guard limits each weight."""

    kind, device, guards = "accuracy", "cpu", ("limit_weights",)
    seq_len = stride = MAILS_PER_WINDOW

    def __init__(self, limit, seed):
        self.limit = limit
        self.weights = {"prize": 2.5, "winner": 2.0, "urgent": 1.2, "free": 1.1}
        rng = random.Random(seed)
        self.mails = [[make_mail(rng) for _ in range(MAILS_PER_WINDOW)] for _ in range(200)]

    def windows(self):
        return [EvidenceWindow(repr(mails).encode(), mails) for mails in self.mails]

    def snapshot(self):
        return dict(self.weights)

    def restore(self, snapshot):
        self.weights = dict(snapshot)

    def fingerprint(self):
        return repr(sorted(self.weights.items()))

    def toggle(self, *, guarded):
        if guarded:
            self.weights = {word: min(self.limit, w) for word, w in self.weights.items()}

    def evaluate(self, window):
        right = [
            (sum(self.weights.get(word, 0) for word in words) > 1.0) is is_spam
            for words, is_spam in window.data
        ]
        return AccuracyCounts(correct=sum(right), total=len(right))


def build(options, seeds):
    return SpamFilter(options["limit"], seeds.python)
