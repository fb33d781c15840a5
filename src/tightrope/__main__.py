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
    except ModuleNotFoundError as error:  # as with the client alone
        print(f"tightrope: {error}; the shell needs: pip install tightrope", file=sys.stderr)
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
