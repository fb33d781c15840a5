"""The readme of the built package: README.md, with links that also work on a registry's page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)]+)\)")


def absolute_links(text: str, repository: str) -> str:
    """``text`` in Markdown, its relative links to files of ``repository``, images to raw ones."""
    return LINK.sub(
        lambda link: "{0}[{1}]({root}/{kind}/main/{2})".format(
            *link.groups(), root=repository, kind="raw" if link[1] else "blob"
        ),
        text,
    )


class ReadmeHook(MetadataHookInterface):
    """Gives the project's metadata their readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for every build."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, metadata["urls"]["Repository"]),
        }
