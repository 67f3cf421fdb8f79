"""What outlives the conversation."""
