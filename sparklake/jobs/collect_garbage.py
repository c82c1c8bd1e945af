"""spark-submit entry point of `sparklake gc run`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("gc", "run")

if __name__ == "__main__":
    sys.exit(main())
