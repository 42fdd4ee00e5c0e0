"""After a verdict: stages, canaries, drift, alerts, schedules, reviews, attribution."""
