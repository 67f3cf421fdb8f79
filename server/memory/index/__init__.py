"""The vector index behind memory: one Protocol, and a backend each for a folder, an embedded engine and a server."""
