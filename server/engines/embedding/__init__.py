"""Meaning: text to vectors."""
