"""What the model sees now: persona, recent turns, and the words of the prompt. Keeps nothing and calls no model."""
