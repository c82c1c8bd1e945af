"""spark-submit entry point of `sparklake gc list`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("gc", "list")

if __name__ == "__main__":
    sys.exit(main())
