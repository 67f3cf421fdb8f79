"""Scripted stand-ins for engines and stores, with the same Protocols as the real ones."""
