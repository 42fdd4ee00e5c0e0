"""Accounts: passwords, sessions, links, tokens and sign-in through a provider."""
