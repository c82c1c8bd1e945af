"""Download the jars that Spark tests need besides Spark.

These are Delta, Avro, Hadoop's S3 client, and for Spark 3.5 the server of Spark Connect.
`python -m tests.support.jars` installs those of tests/jars/spark-N.xml into its environment, with
Spark's own resolver. Spark 4.1 has a list of its own, with Iceberg's jar. Hadoop's client of Azure
is in a folder of its own, because most tests need a session without it.
"""

from __future__ import annotations

import ssl
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12
from cryptography.x509 import load_der_x509_certificate

from benchmarks.spark import JARS, found_jars
from sparklake.session import ivy_command


def main() -> None:
    major, minor, *_ = version("pyspark").split(".")
    lists = Path(__file__).parents[1] / "jars"
    JARS.mkdir(parents=True, exist_ok=True)
    trust = _trust_store(JARS.parent / "trust.p12")
    own = lists / f"spark-{major}.{minor}.xml"
    list_file = own if own.exists() else lists / f"spark-{major}.xml"
    for each, folder in (
        (list_file, JARS),
        (lists / f"{list_file.stem}-azure.xml", JARS / "azure"),
    ):
        if not each.exists():
            continue
        names = folder / "[artifact]-[revision].[ext]"
        command = [*ivy_command(each, JARS / ".ivy", names, *trust), "-warn", "-sync"]
        with (JARS.parent / "ivy.log").open("wb") as log:
            done = subprocess.run(command, stdout=log, check=False)
        if done.returncode:
            sys.exit(f"the jars of {each.name} could not be downloaded: see {log.name}")
    found_jars()


def _trust_store(file: Path) -> list[str]:
    """Return Java options to trust Python's certificate authorities, such as a company's."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    with warnings.catch_warnings():  # Old authorities deviate from the rules.
        warnings.simplefilter("ignore")
        authorities = [
            pkcs12.PKCS12Certificate(load_der_x509_certificate(each), str(number).encode())
            for number, each in enumerate(certificates)
        ]
    if not authorities:
        return []
    file.write_bytes(pkcs12.serialize_java_truststore(authorities, NoEncryption()))
    name = "-Djavax.net.ssl.trustStore"
    return [f"{name}={file}", f"{name}Type=PKCS12", f"{name}Password="]


if __name__ == "__main__":
    main()
