"""The compiled kernels of the package; all other settings of the build are in pyproject.toml."""

import os
from pathlib import Path

from setuptools import setup


def kernels() -> list[object]:
    """Return the crate as an optional extension: without cargo, the package runs in Python."""
    if os.environ.get("SPARKLAKE_KERNELS", "").lower() == "off":
        return []
    from setuptools_rust import RustExtension

    environment = {
        **os.environ,
        # rustup puts cargo there; the PATH of a notebook or of a service often lacks it.
        "PATH": f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path.home() / '.cargo' / 'bin'}",
        # One library for all Pythons. pyo3 would be built again for the Python of each build.
        "PYO3_NO_PYTHON": "1",
    }
    return [
        RustExtension(
            "sparklake._kernels",
            path="kernels/Cargo.toml",
            cargo_manifest_args=["--locked"],
            debug=False,
            optional=True,
            # Deprecated, but an editable installation ignores the setting of bdist_wheel.
            py_limited_api=True,
            env=environment,
        )
    ]


setup(rust_extensions=kernels())
