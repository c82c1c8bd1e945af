"""spark-submit entry point of `sparklake restore`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("restore")

if __name__ == "__main__":
    sys.exit(main())
