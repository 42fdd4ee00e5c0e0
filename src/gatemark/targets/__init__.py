"""What is examined, and the runner that calls it: each call ends as one reply or one error."""
