"""spark-submit entry point of `sparklake revert`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("revert")

if __name__ == "__main__":
    sys.exit(main())
