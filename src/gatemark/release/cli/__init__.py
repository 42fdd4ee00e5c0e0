"""Commands of what happens after a verdict: assets, promotions, canaries, drift, reviews."""
