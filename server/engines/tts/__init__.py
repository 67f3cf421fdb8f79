"""Speaking: text to speech."""
