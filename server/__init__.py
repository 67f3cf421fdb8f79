"""StackChan's voice and memory: the server a robot talks to."""

__version__ = "0.4.0"
