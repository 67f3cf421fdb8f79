"""Thinking: language models."""
