"""``python -m tightrope``: the shell command."""

import sys

from tightrope.cli import main

sys.exit(main())
