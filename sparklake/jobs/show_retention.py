"""spark-submit entry point of `sparklake gc rules show`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("gc", "rules", "show")

if __name__ == "__main__":
    sys.exit(main())
