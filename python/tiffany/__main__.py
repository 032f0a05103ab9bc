"""``python -m tiffany``: the command line."""

import sys

from tiffany._cli.command import main

if __name__ == "__main__":
    sys.exit(main())
