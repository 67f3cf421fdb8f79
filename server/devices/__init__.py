"""Robots come in here: the HTTP turn, who may ask for it, and what is sent back. Decides nothing about a turn."""
