"""spark-submit entry point of `sparklake cherry-pick`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("cherry-pick")

if __name__ == "__main__":
    sys.exit(main())
