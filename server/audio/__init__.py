"""Arithmetic on samples: containers, rates, and where speech begins and ends. No models, network or asyncio."""
