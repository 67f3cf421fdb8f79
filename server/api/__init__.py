"""Programs come in here: health for now; memory, metrics and OpenAI-compatible endpoints later."""
