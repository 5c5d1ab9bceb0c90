"""The terminal face: ``loadwire``, and what it says where the ``cli`` extra is not installed.

Exit status 0 is conforming, 1 is not, 2 is a wrong call or nothing to check.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say what to install where the extra is missing."""
    try:
        from pytest_loadwire.commands import loadwire  # noqa: PLC0415 - needs the extra
    except ImportError as error:
        if error.name is None or error.name.startswith("pytest_loadwire"):
            raise
        print(  # noqa: T201 - the libraries that print better are what is missing
            f"loadwire: {error.name} is not installed; pip install 'pytest-loadwire[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    loadwire(prog_name="loadwire")


if __name__ == "__main__":
    main()
