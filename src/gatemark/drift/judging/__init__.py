"""Judge windows of metrics: cohorts, levels, episodes and what is remembered."""
