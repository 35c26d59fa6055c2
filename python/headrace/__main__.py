"""The command `headrace`, also as `python -m headrace`: that of the C library, in this process."""

import os
import sys

from headrace import _core


def main():
    """Runs sys.argv[1:]. Ends the process with the command's exit status."""
    sys.exit(_core.command([os.fsencode(arg) for arg in ("headrace", *sys.argv[1:])]))


if __name__ == "__main__":
    main()
