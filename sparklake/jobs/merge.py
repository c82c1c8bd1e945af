"""spark-submit entry point of `sparklake merge`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("merge")

if __name__ == "__main__":
    sys.exit(main())
