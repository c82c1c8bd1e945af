"""spark-submit entry point of `sparklake op undo`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("op", "undo")

if __name__ == "__main__":
    sys.exit(main())
