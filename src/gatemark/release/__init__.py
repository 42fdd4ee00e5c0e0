"""The ring of what happens after a verdict: stages, canaries, drift, alerts, schedules, reviews.

It may import the kernel, and knows neither the server nor a plugin.
"""
