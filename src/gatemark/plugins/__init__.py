"""Exams of special evidence. The rest of Gatemark knows each by its entry points, as it would a stranger's."""
