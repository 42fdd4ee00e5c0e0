"""Two arms on the same items: tests, intervals and margins."""
