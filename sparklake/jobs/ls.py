"""spark-submit entry point of `sparklake ls`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("ls")

if __name__ == "__main__":
    sys.exit(main())
