"""The command as `python -m sparklake.cli`."""

from __future__ import annotations

import sys

from sparklake.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
