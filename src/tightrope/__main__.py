"""The command ``tightrope``, also as ``python -m tightrope``."""

import sys

from tightrope.interrupts import stopped_status, terminable


def main() -> int:
    """Run one command; returns its exit status. A stop during the imports is one line, too."""
    try:
        with terminable():
            from tightrope.cli import main as run
    except KeyboardInterrupt:
        print("tightrope: interrupted; nothing was finished", file=sys.stderr)
        return stopped_status()
    return run()


if __name__ == "__main__":
    sys.exit(main())
