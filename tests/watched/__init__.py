"""Every command, watched: what it connects to and where it writes.

``lines`` has the lines, ``scene`` what they work on, ``places`` what they may connect to, ``walk``
walks them, and ``watch`` sees what they do. ``tests/cli/test_stays_in_its_place.py`` judges it.
"""
