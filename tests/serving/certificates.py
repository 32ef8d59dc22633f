"""Certificates for tests, made by the `openssl` command where it is, a day old at most."""

import shutil
import subprocess

import pytest


def make(folder):
    """Write .pem and .key of an authority `ca`, a `server` for the name served.test and a `client`."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")

    def run(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes", "-days", "1")
    run(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    (folder / "names").write_text("subjectAltName=DNS:served.test,DNS:localhost")
    for name in ("server", "client"):
        run(*new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = (
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
        )
        run(*signed, "-days", "1", "-extfile", "names", "-out", f"{name}.pem")
    return folder
