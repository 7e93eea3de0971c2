"""Write text with spaces between its words, one sentence on a line, as characters with tags: B, M and E, or S."""

import sys
from pathlib import Path

source, target = map(Path, sys.argv[1:])
lines = []
for line in source.read_text(encoding="utf8").splitlines():
    for word in line.split():
        tags = "S" if len(word) == 1 else "B" + "M" * (len(word) - 2) + "E"
        lines += [f"{character} {tag}" for character, tag in zip(word, tags, strict=True)]
    lines.append("")
target.write_text("\n".join(lines) + "\n", encoding="utf8")
