"""Hearing: speech to text."""
