"""Judge windows of metrics: cohorts, levels, episodes and memory between ticks."""
