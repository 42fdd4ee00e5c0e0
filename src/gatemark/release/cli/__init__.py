"""Commands of the lifecycle: assets, promotions, canaries, routes."""
