"""The cross-agent agreement exam: whether two independent validators say the same."""
