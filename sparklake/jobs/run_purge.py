"""spark-submit entry point of `sparklake purge run`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("purge", "run")

if __name__ == "__main__":
    sys.exit(main())
