"""A job of AWS Glue 5: a first merge, with the DSN from Secrets Manager.

Arguments of the job: --namespace s3://bucket/prefix, --dsn_secret NAME, and optionally --name.
Glue adds arguments of its own, which are ignored. first_merge.py comes with --extra-py-files.
"""

from __future__ import annotations

import argparse
import os

import boto3
import first_merge


def main() -> None:
    """Read the DSN, then run the example."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--dsn_secret", required=True)
    parser.add_argument("--name", default="orders")
    given, _ = parser.parse_known_args()
    secret = boto3.client("secretsmanager").get_secret_value(SecretId=given.dsn_secret)
    os.environ["SPARKLAKE_DSN"] = secret["SecretString"]
    first_merge.main([given.namespace, "--name", given.name])


if __name__ == "__main__":
    main()
