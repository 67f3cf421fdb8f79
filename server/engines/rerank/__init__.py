"""Order: how well a few texts answer a question."""
