"""spark-submit entry point of `sparklake purge list`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("purge", "list")

if __name__ == "__main__":
    sys.exit(main())
