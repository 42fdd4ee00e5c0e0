"""The run-log exam: how variants of a summarizer differ on the same conversations.

``records`` has the four record types, ``traces`` the conversations, ``replay`` runs variants over
them, ``metrics`` scores their logs by case, ``estimates`` adds cases up by variant, and
``concepts`` finds concepts in texts.
"""
