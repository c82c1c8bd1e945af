"""spark-submit entry point of `sparklake purge resume`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("purge", "resume")

if __name__ == "__main__":
    sys.exit(main())
