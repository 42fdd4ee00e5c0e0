"""Stories that fill a store with everything a build can write, for fixtures."""
