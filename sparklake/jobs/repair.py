"""spark-submit entry point of `sparklake repair`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("repair")

if __name__ == "__main__":
    sys.exit(main())
