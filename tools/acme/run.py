"""Test of edge-server's ACME against Pebble: `make test-acme`.

Exits with 1 if a step failed, and shows what servers and authority logged."""

import argparse
import base64
import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

from authority import LOCALHOST, Authority, free_port, wait_until
from node import LARGE, LARGE_BYTES, PAGE, Node, SlowDownload

VALIDITY_S = 20

# Time for an order: Pebble refuses requests, and wants a second before each question.
ORDER_S = 15
RENEWAL_S = VALIDITY_S + ORDER_S

# Nobody listens there.
ELSEWHERE = "127.0.0.9"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="cargo's target folder")
    parser.add_argument("--programs", type=Path, required=True, help="folder of pebble and its DNS server")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            with contextlib.ExitStack() as stack:
                Test(stack, folder, arguments.target, arguments.programs).run()
        except AssertionError as failed:
            for log in sorted(folder.rglob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-8000:]}", file=sys.stderr)
            sys.exit(f"test-acme: FAILED: {failed}")


class Test:
    def __init__(self, stack, folder, target, programs):
        self.stack, self.folder, self.target = stack, folder, target
        root = folder / "root"
        root.mkdir()
        (root / PAGE).write_text("page")
        (root / LARGE).write_bytes(os.urandom(LARGE_BYTES))
        self.authority = stack.enter_context(Authority(programs, folder, VALIDITY_S))
        self.share = folder / "share"
        self.started = time.monotonic()

    def run(self):
        self.authority_that_is_down()
        self.first_certificate()
        self.challenges_over_tls()
        self.failed_validation()
        self.renewal_during_a_download()
        self.hot_restart()
        self.authority_that_forgot_the_account()
        self.authority_that_wants_renewal()

    def node(self, name, **options):
        return self.stack.enter_context(Node(name, self.target, self.folder, self.authority, **options))

    def passed(self, text):
        print(f"test-acme: {time.monotonic() - self.started:5.1f} s: {text}", flush=True)

    def authority_that_is_down(self):
        # Answers the authority, and has no host with acme = true: another server's orders.
        self.node("answers", http=self.authority.http_port, share=self.share)
        more = {"hosts": [["a.test", "b.test"]], "share": self.share, "options": ["--acme-retry=1"]}
        self.one, self.other = (self.node(name, http=free_port(), **more) for name in ("one", "other"))
        for node in (self.one, self.other):
            issuer, subject, _ = node.certificate("a.test")
            assert issuer == subject, f"not self-signed: {issuer}"
            assert "there is no certificate of a.test, b.test yet" in node.log(), node.log()
        refused = lambda: self.one.orders("failed") + self.other.orders("failed")
        wait_until("a failure is counted", refused, 10)
        lines = [line for line in (self.one.log() + self.other.log()).splitlines() if "ACME cannot" in line]
        assert lines and all("trying again at" in line for line in lines), lines
        self.passed("servers serve while the authority is down, and tell")

    def first_certificate(self):
        self.authority.start()
        serials = {wait_until("trusted", lambda n=node: n.is_trusted("b.test"), ORDER_S) for node in (self.one, self.other)}
        assert len(serials) == 1, f"two certificates: {serials}"
        assert self.authority.issued() == 1, f"{self.authority.issued()} certificates were issued"
        assert self.one.orders() + self.other.orders() == 1, "the metrics do not tell of one order"
        for node in (self.one, self.other):
            assert node.is_trusted_over_quic("b.test"), f"{node.name} is not trusted over QUIC"
        files = [path for path in self.share.rglob("*")]
        modes = {stat.S_IMODE(path.stat().st_mode) for path in files if path.is_file()}
        folders = {stat.S_IMODE(path.stat().st_mode) for path in [self.share, *files] if path.is_dir()}
        assert (modes, folders) == ({0o600}, {0o700}), f"modes {modes} and {folders}"
        assert not any((self.share / "challenges").iterdir()), "a challenge's response is left"
        self.passed("two servers share one order, whose challenges a third answers over HTTP")

    def challenges_over_tls(self):
        self.restarts = {
            "hosts": [["c.test"]],
            "port": self.authority.tls_port,
            "share": self.folder / "share-tls",
            "options": ["--acme-retry=1", f"--takeover={self.folder}/takeover.sock", "--drain=60"],
        }
        self.before = self.node("before", **self.restarts)
        wait_until("trusted", lambda: self.before.is_trusted("c.test"), ORDER_S)
        assert self.before.is_trusted_over_quic("c.test"), "not trusted over QUIC"
        self.passed("TLS-ALPN-01")

    def failed_validation(self):
        self.authority.point("d.test", ELSEWHERE)
        more = {"share": self.share, "options": ["--acme-retry=600"]}
        node = self.wrong = self.node("wrong", hosts=[["d.test"]], http=free_port(), **more)
        wait_until("the failure is counted", lambda: node.orders("failed"), ORDER_S)
        [line] = [line for line in node.log().splitlines() if "ACME cannot" in line]
        assert "d.test" in line and "by http-01" in line and ELSEWHERE in line, line
        self.authority.point("d.test", LOCALHOST)
        assert node.orders() == 0, "ordered without a validation"
        node.admin("reload")
        wait_until("trusted", lambda: node.is_trusted("d.test"), ORDER_S)
        self.passed("a failed validation is told once; a reload tries again")

    def renewal_during_a_download(self):
        # Lately issued, so that the download begins before the next renewal.
        first = self.one.is_trusted("a.test")
        wait_until("renewed", lambda: self.one.is_trusted("a.test") not in (first, None), RENEWAL_S)
        first = self.one.is_trusted("a.test")
        download = SlowDownload(self.one, "a.test")
        is_renewed = lambda: download.read(1 << 12) and self.one.is_trusted("a.test") not in (first, None)
        wait_until("renewed during the download", is_renewed, RENEWAL_S)
        expected = hashlib.sha256((self.folder / "root" / LARGE).read_bytes()).hexdigest()
        assert download.hash() == expected, "the download is broken"
        # By now, the certificate from before the download has expired: QUIC clients, too, get another.
        time.sleep(VALIDITY_S / 3 + 1)
        for node in (self.one, self.other):
            assert node.is_trusted_over_quic("a.test"), f"{node.name} has an old certificate over QUIC"
        # One of them may renew right now.
        serials = lambda: {node.is_trusted("a.test") for node in (self.one, self.other)}
        wait_until("both have the same", lambda: len(serials()) == 1, ORDER_S)
        self.passed("renewed during a download, over TCP and QUIC, on both servers")

    def hot_restart(self):
        download = SlowDownload(self.before, "c.test")
        orders = self.before.log().count("there is a new certificate")
        after = self.node("after", **self.restarts)
        serial = after.is_trusted("c.test")
        is_renewed = lambda: download.read(1 << 12) and after.is_trusted("c.test") not in (serial, None)
        wait_until("renewed after the restart", is_renewed, RENEWAL_S)
        assert self.before.process.poll() is None, "the old server has ended"
        assert self.before.log().count("there is a new certificate") == orders, "the old server renews"
        assert after.orders() >= 1, "the new server has not renewed"
        download.hash()
        self.passed("after a hot restart, the new server renews")

    def authority_that_forgot_the_account(self):
        self.authority.stop()
        self.authority.start()
        wait_until("trusted", lambda: self.one.is_trusted("a.test"), RENEWAL_S)
        logs = [node.log() for node in (self.one, self.other, self.wrong)]
        assert any("making another" in log for log in logs), "the account is not replaced"
        self.passed("an account that the authority forgot is replaced")

    def authority_that_wants_renewal(self):
        self.authority.stop()
        folder = self.folder / "other"
        folder.mkdir()
        (folder / "root").symlink_to(self.folder / "root")
        key = base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
        external = folder / "external"
        external.write_text(f"kid-1 {key}\n")
        external.chmod(0o600)
        programs = self.authority.programs
        authority = self.stack.enter_context(Authority(programs, folder, 90 * 86_400, {"kid-1": key}))
        authority.start()
        more = {"hosts": [["e.test"]], "http": authority.http_port, "share": folder / "share"}
        more["options"] = ["--acme-retry=1", f"--acme-external-account={external}"]
        with Node("long", self.target, folder, authority, **more) as node:
            first = wait_until("trusted", lambda: node.is_trusted("e.test"), ORDER_S)
        [certificate] = (folder / "share").rglob("certificate.pem")
        authority.want_renewal(certificate.read_text())
        with Node("early", self.target, folder, authority, **more) as node:
            wait_until("renewed", lambda: node.is_trusted("e.test") not in (first, None), ORDER_S)
            assert authority.issued() == 2, f"{authority.issued()} certificates were issued"
        self.passed("an account bound to an external one; a renewal that the authority wants early")


if __name__ == "__main__":
    main()
