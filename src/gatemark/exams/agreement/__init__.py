"""The agreement exam: whether two independent validators give the same labels.

``records`` is the evidence, ``measure`` has the numbers, ``rules`` says what labels mean, how a row
is arbitrated and what is asked, ``labels`` reads a user's own labels, ``counting`` counts rows,
``exam`` reports and declares, ``two_files`` reads one file per validator, ``table_file`` and
``tables`` are the form with several raters, ``score`` is the command and ``views`` the summary.
Start with ``exam``.
"""
