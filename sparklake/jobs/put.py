"""spark-submit entry point of `sparklake put`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("put")

if __name__ == "__main__":
    sys.exit(main())
