"""Models behind Protocols: which there are, where their files come from, one backend a file."""
