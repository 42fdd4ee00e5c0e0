"""Where folds run. An engine maps one function over shards and knows nothing else."""
