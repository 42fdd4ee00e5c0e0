"""What the events of the lifecycle say, and the state they add up to."""
