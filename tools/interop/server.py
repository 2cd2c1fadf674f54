"""Server under test."""

from process import Listening

# Options that the cases of `run.py` need.
CASES = ("--speedtest", "--early-data=on", "--tcp=on")


class Server(Listening):
    """An edge-server process with an empty store, until the end of the `with`."""

    def __init__(self, program, material, options=CASES, address="127.0.0.1"):
        command = [str(program), "--listen", f"{address}:0", "--drain=0", *options]
        command += ["--root", str(material.root)]
        command += ["--cert", str(material.certificate), "--key", str(material.key)]
        super().__init__(command)
