"""spark-submit entry point of `sparklake abandon-write`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("abandon-write")

if __name__ == "__main__":
    sys.exit(main())
