#!/usr/bin/env python3
"""What no linter looks at: file sizes, unfinished marks, package index addresses and dead links. Run by scripts/check.

Reads the files git knows, and new ones it does not ignore; without git, everything outside hidden folders. Prints one
line for each finding and ends with status 1 if there are any. Knows nothing of the server.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

FILE_BYTES_LIMIT = 1024 * 1024
# Written in pieces, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
UNFINISHED_IN = ("server", "scripts", "firmware", ".ci")
INDEX_HOSTS = re.compile("|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "npm" + r"js\.(?:org|com)"]))
LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def tracked_files(root: Path) -> list[Path]:
    """Files of the checkout, without what git ignores; those deleted but not yet committed are left out."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        files = {root / name for name in listing if name}
    except (OSError, subprocess.CalledProcessError):
        hidden = {".git", ".venv", "__pycache__", "build", "dist"}
        files = {path for path in root.rglob("*") if not hidden.intersection(path.relative_to(root).parts)}
    return sorted(path for path in files if path.is_file())


def findings(root: Path) -> Iterator[str]:
    """One line for each thing that is wrong in the checkout at `root`."""
    for path in tracked_files(root):
        name = path.relative_to(root)
        content = path.read_bytes()
        if len(content) > FILE_BYTES_LIMIT:
            yield f"{name}: {len(content) / FILE_BYTES_LIMIT:.1f} MiB, at most 1 MiB is tracked"
        if b"\0" in content:
            continue
        text = content.decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if name.parts[0] in UNFINISHED_IN and (mark := UNFINISHED.search(line)):
                yield f"{name}:{number}: {mark[0]} left in"
            if host := INDEX_HOSTS.search(line):
                yield f"{name}:{number}: {host[0]}: which index to use is the user's setting"
        if path.suffix == ".md":
            yield from (f"{name}: {problem}" for problem in dead_links(path, text, root))


def dead_links(page: Path, text: str, root: Path) -> Iterator[str]:
    """Links of a Markdown page to files or headings of this checkout that do not exist."""
    for target in LINK.findall(CODE.sub("", text)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
            continue
        file, _, anchor = unquote(target).partition("#")
        linked = (root / file[1:] if file.startswith("/") else page.parent / file) if file else page
        if not linked.exists():
            yield f"link to {target}: no such file"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked.read_text(encoding="utf-8")):
            yield f"link to {target}: no such heading"


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, in the form GitHub gives them."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)):
        words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if number == 0 else f"{slug}-{number}" for slug, last in found.items() for number in range(last + 1)}


def main() -> int:
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    lines = list(findings(Path(__file__).resolve().parent.parent))
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
