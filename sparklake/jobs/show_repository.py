"""spark-submit entry point of `sparklake repo show`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("repo", "show")

if __name__ == "__main__":
    sys.exit(main())
