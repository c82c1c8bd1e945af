"""spark-submit entry point of `sparklake protect remove`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("protect", "remove")

if __name__ == "__main__":
    sys.exit(main())
