"""Alerts to owners: stored first, then delivered to the sinks that want them.

``queue_alert`` puts an alert into the outbox, and ``send_pending`` delivers what waits there. What
an alert is about is up to the feature that makes it. ``plan_file`` reads the sinks, with one kind
of sink per file in ``sinks``.
"""
