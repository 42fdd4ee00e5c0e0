"""The agreement exam: whether two independent validators give the same labels.

``records`` is the evidence and ``labels`` a user's own label space. ``arbitrate`` says what labels
mean, when a row has a red flag and what its final label is; ``hygiene`` what is odd in its texts.
``count`` counts rows of pairs, and ``join`` makes rows of one file per validator. ``table_file``
and ``table`` are the form with several raters. ``measure`` has the numbers, ``label_use`` those of
one label, ``rules`` the options and what is asked, ``views`` the summary, ``score`` the command.
Start with ``exam``.
"""
