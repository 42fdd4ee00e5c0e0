"""The agreement exam: whether two independent validators give the same labels.

``records`` is the evidence, ``measure``, ``abstention`` and ``krippendorff`` are the numbers,
``arbitration`` decides every row, ``exam`` holds the rules and the declaration, ``two_files`` reads
one file per validator, ``journey`` is the command and ``views`` the summary. Start with ``exam``.
"""
