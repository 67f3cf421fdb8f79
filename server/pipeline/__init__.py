"""One spoken turn, from words or sound to a stored answer. Knows no wire format, no table names, no model library."""
