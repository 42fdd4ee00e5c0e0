"""The advisory exam: whether a dry run's recommendations may be discussed, lane by lane."""
