"""spark-submit entry point of `sparklake gc rules clear`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("gc", "rules", "clear")

if __name__ == "__main__":
    sys.exit(main())
