"""What the commands of `stackchan` do: one module a command, and the few they share.

The top layer beside `cli.py`, which only declares arguments and turns errors into exit codes. Heavy libraries are
imported inside the functions that need them, so that `stackchan --help` is quick.
"""
