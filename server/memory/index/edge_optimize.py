"""Builds the graph of an `edge` folder, in a process of its own: `python -m server.memory.index.edge_optimize FOLDER`.

The engine holds the interpreter while it builds, minutes for 100,000 points; in the server every robot would wait.
The folder is a copy that nobody else has open. Its own configuration says what to build.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def main(arguments: list[str]) -> int:
    """Build, at the lowest priority. Status 0 when it is done; the engine's complaint goes to stderr."""
    with suppress(AttributeError, OSError):  # not everywhere
        os.nice(15)
    import qdrant_edge

    shard = qdrant_edge.EdgeShard.load(arguments[0])
    shard.optimize()
    shard.flush()
    shard.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
