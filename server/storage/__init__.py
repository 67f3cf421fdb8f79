"""What is kept: SQL is the truth. Tables, migrations, and query functions that take a `db`."""
