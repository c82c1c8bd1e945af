"""spark-submit entry point of `sparklake refs dump`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("refs", "dump")

if __name__ == "__main__":
    sys.exit(main())
