"""The agreement exam: whether two independent validators give the same labels.

``records`` is the evidence; ``measure`` has the numbers; ``rules`` has labels, arbitration, options
and
gates; ``labels`` reads a user's own labels; ``exam`` counts, and declares the exam; ``two_files``
reads
one file per validator; ``journey`` is the command and ``views`` the summary. Start with ``exam``.
"""
