"""spark-submit entry point of `sparklake reset`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("reset")

if __name__ == "__main__":
    sys.exit(main())
