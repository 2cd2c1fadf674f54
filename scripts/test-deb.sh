#!/bin/sh
# make test-deb: Debian's package in a fresh Debian that systemd-nspawn boots: it installs, starts, is
# upgraded and restarted under load without a failed request, survives a stuck server, rotates its log,
# is removed and purged. Needs root. PROGRAMS and others: scripts/stage.sh.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
release=${DEBIAN:-bookworm}
target=${CARGO_TARGET_DIR:-$PWD/target}
# Not that of docker.sh, which boots nothing.
base=${BASE:-$target/debian-$release-systemd}
work=$(mktemp -d)
machine=
[ "$(id -u)" -eq 0 ] || skip test-deb "it needs root"
command -v debootstrap >/dev/null && command -v systemd-nspawn >/dev/null || install_packages debootstrap systemd-container
command -v lintian >/dev/null || install_packages lintian

stop() {
    [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
    [ -z "$machine" ] || wait "$machine" 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT

say() {
    echo "test-deb: $*" >&2
}

# Runs a command in the machine.
inside() {
    nsenter -t "$leader" -m -u -i -n -p -- "$@"
}

until_so() { # WHAT COMMAND…
    what=$1
    shift
    for _ in $(seq 300); do
        if "$@"; then return 0; fi
        sleep 0.2
    done
    inside journalctl --no-pager -u 'edge@*' | tail -30 >&2
    die "in vain: $what"
}

property() { # UNIT NAME
    inside systemctl show --value -p "$2" "$1"
}

differs() { # UNIT NAME VALUE
    [ "$(property "$1" "$2")" != "$3" ]
}

is_booted() {
    case $(inside systemctl is-system-running 2>/dev/null) in
    running | degraded) ;;
    *) return 1 ;;
    esac
}

# How many servers there are, those that drain included.
processes() {
    inside sh -c 'cat /proc/[0-9]*/comm 2>/dev/null' | grep -cx edge-server || true
}

is_alone() {
    [ "$(processes)" = 1 ]
}

serves() {
    inside edge-server probe --insecure https://127.0.0.1/ >/dev/null 2>"$work/probe"
}

# Clients that request a page again and again, for a moment and as long as there is a file.
start_load() {
    touch "$tree/root/load"
    inside sh -c 'cd /root; failed=0; n=0; while [ -e load ]; do
        edge-client https://127.0.0.1/index.html --insecure --json --clients 5 --requests 100 >out 2>err || failed=$((failed + 1))
        grep -q "\"failed\":0" out || failed=$((failed + 1)); n=$((n + 1)); done; echo $n $failed >done' &
    load=$!
    sleep 1
}

end_load() {
    rm "$tree/root/load"
    wait "$load"
    read -r rounds failed <"$tree/root/done"
    [ "$rounds" -gt 0 ] && [ "$failed" -eq 0 ] || die "$failed of $rounds rounds of requests failed: $(cat "$tree/root/err" "$tree/root/out")"
    say "$rounds rounds of 100 requests, none failed"
}

[ -e "$base/etc/debian_version" ] || {
    say "makes a Debian ($release) in $base"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,logrotate,openssl,ca-certificates,libstdc++6 \
        "$release" "$base.new" >"$work/log" 2>&1 || die "debootstrap: $(tail -3 "$work/log")"
    : >"$base.new/etc/machine-id"
    mv "$base.new" "$base"
}
OUT=$work/packages VERSION=0.1.0 COMPRESSION=none sh scripts/deb.sh >/dev/null 2>"$work/log" || die "deb: $(cat "$work/log")"
old=edge-server_0.1.0-1_$(dpkg --print-architecture).deb
new=edge-server_0.1.1-1_$(dpkg --print-architecture).deb
# The next version has the same programs, in other files.
dpkg-deb --raw-extract "$work/packages/$old" "$work/next"
sed -i 's/^Version: .*/Version: 0.1.1-1/' "$work/next/DEBIAN/control"
dpkg-deb --root-owner-group -Znone --build "$work/next" "$work/packages/$new" >/dev/null
# Compression takes longer than all the rest.
lintian --fail-on error --suppress-tags uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball \
    "$work/packages/$old" >"$work/log" 2>&1 || die "lintian: $(cat "$work/log")"
say "lintian has no error"

tree=$work/tree
cp -a --reflink=auto "$base" "$tree"
cp "$work/packages/$old" "$work/packages/$new" "$tree/root"
systemd-nspawn --quiet --boot --directory="$tree" --register=no --keep-unit --private-network --machine=edge-test-$$ \
    --kill-signal=SIGRTMIN+4 </dev/null >"$work/boot.log" 2>&1 &
machine=$!
for _ in $(seq 100); do
    leader=$(pgrep -P $machine -x systemd) && break
    sleep 0.1
done
[ -n "${leader:-}" ] || die "systemd-nspawn: $(tail -3 "$work/boot.log")"
until_so "the machine boots" is_booted


inside dpkg -i "/root/$old" >"$work/log" 2>&1 || die "dpkg: $(cat "$work/log")"
inside runuser -u edge -- edge-server --config /etc/edge/edge.toml --check >"$work/log" 2>&1 || die "--check: $(cat "$work/log")"
inside systemctl enable --now edge@a 2>"$work/log" || { inside journalctl -u edge@a; die "start: $(cat "$work/log")"; }
serves || die "the server does not serve after systemctl start: $(cat "$work/probe")"
[ -e "$tree/var/lib/edge/paths.db" ] || die "there is no store"
inside edge-server probe http://127.0.0.1:9100/readyz >/dev/null || die "not ready"
say "installed and started: $(property edge@a MainPID)"

first=$(property edge@a MainPID)
inside systemctl reload edge@a
[ "$(property edge@a MainPID)" = "$first" ] || die "a reload has restarted the server without need"
start_load
inside dpkg -i "/root/$new" >"$work/log" 2>&1 || die "dpkg: $(cat "$work/log")"
second=$(property edge@a MainPID)
[ "$second" != "$first" ] && [ "$(property edge@a ActiveState)" = active ] || die "the upgrade has not restarted the server"
for _ in 1 2 3; do
    before=$(property edge@a MainPID)
    inside edge-server admin /run/edge/admin.sock restart >/dev/null || die "restart: $(inside journalctl -n 5 -u edge@a)"
    until_so "the new process is the main one" differs edge@a MainPID "$before"
done
end_load
until_so "older processes end" is_alone
[ "$(property edge@a NRestarts)" = 0 ] && serves || die "systemd has restarted the server"
say "upgraded and restarted three times in a row"

# An unusable configuration: systemctl says so, and the server goes on.
cp "$tree/etc/edge/edge.toml" "$tree/root/edge.toml"
echo nonsense >>"$tree/etc/edge/edge.toml"
! inside systemctl reload edge@a 2>/dev/null || die "a reload of nonsense succeeds"
serves && [ "$(property edge@a ActiveState)" = active ] || die "the server is gone after a failed reload"
cp "$tree/root/edge.toml" "$tree/etc/edge/edge.toml"
# An option that a reload does not apply.
sed -i 's/^metrics = .*/metrics = "127.0.0.1:9101"/' "$tree/etc/edge/edge.toml"
inside systemctl reload-or-restart edge@a || die "reload-or-restart fails"
inside edge-server probe http://127.0.0.1:9101/readyz >/dev/null || die "the new option is not in use"

inside logrotate -f /etc/logrotate.d/edge || die "logrotate fails"
until_so "the log is open again" test -e "$tree/var/log/edge/access.log"
serves && until_so "the new log has a line" test -s "$tree/var/log/edge/access.log"

# Another instance takes over, and the watchdog finds a process that does nothing.
mkdir -p "$tree/etc/systemd/system/edge@.service.d"
printf '[Service]\nWatchdogSec=3\n' >"$tree/etc/systemd/system/edge@.service.d/watchdog.conf"
inside systemctl daemon-reload
inside systemctl start edge@b
until_so "edge@a ends" differs edge@a ActiveState active
inside systemctl kill --signal=SIGSTOP edge@b
until_so "the watchdog restarts the server" differs edge@b NRestarts 0
until_so "the server serves again" serves
say "a second instance takes over, and a stuck one is restarted"

inside dpkg -r edge-server >"$work/log" 2>&1 || die "dpkg -r: $(cat "$work/log")"
[ "$(processes)" = 0 ] || die "the server runs after its removal"
[ -e "$tree/etc/edge/edge.toml" ] && [ -e "$tree/var/lib/edge/paths.db" ] || die "a removal has deleted configuration or state"
rm -r "$tree/etc/systemd/system/edge@.service.d"
inside dpkg -P edge-server >"$work/log" 2>&1 || die "dpkg -P: $(cat "$work/log")"
! grep -q '^edge:' "$tree/etc/passwd" "$tree/etc/group" || die "the user is still there"
rest=$(cd "$tree" && find etc var/lib/edge var/cache/edge var/log/edge run usr/lib usr/share usr/bin \
    -name '*edge[-@.]*' -o -path '*/edge/*' -o -name edge 2>/dev/null | grep -v "^var/lib/dpkg\|^etc/.*-$" || true)
[ -z "$rest" ] || die "left after the purge: $rest"
say "removed and purged"
