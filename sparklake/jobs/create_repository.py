"""spark-submit entry point of `sparklake repo create`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("repo", "create")

if __name__ == "__main__":
    sys.exit(main())
