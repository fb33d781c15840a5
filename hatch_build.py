"""The readme of the built package: README.md without links to files, which a registry has not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)[^)]+\)")


def without_files(text: str) -> str:
    """``text`` in Markdown: links to files become their words, and pictures are left out."""
    return LINK.sub(lambda link: "" if link[1] else link[2], text)


class ReadmeHook(MetadataHookInterface):
    """Gives the project's metadata their readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for every build."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_files(text)}
