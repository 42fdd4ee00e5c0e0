"""What every command printed, how it ended and what it wrote, kept to be compared.

``fixed`` fixes clock and chance of a command, ``walk`` runs the lines of ``tests/watched`` one
after the other, ``transcripts`` writes what they gave as texts in which ids, digests and durations
are numbered placeholders. ``commands`` has a file per command, ``pages`` one per page of the
documentation with commands.

A difference is shown by the tests. If it is wanted, ``make recordings`` writes the files anew, and
the commit that has them says why.
"""
