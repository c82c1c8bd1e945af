"""spark-submit entry point of `sparklake export`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("export")

if __name__ == "__main__":
    sys.exit(main())
