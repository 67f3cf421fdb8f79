"""Programs come in here: health and metrics, and the one form of every refusal."""
