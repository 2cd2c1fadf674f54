#!/bin/sh
# Test of make bisect and make bisect-history, in a clone of the committed state with
# its own builds (minutes): make bisect must find faults in a patch of Careful Resume and
# in one of the performance topic that only change a simulated time to the last byte, and
# make bisect-history one in a file of ours.
. "$(dirname "$0")/fork/common.sh"
. scripts/boringssl.sh
. scripts/fork/trees.sh

figure() { # MODE: prints the time to the last byte, in ms
    echo "sim run paths --only 5G-1.125MB,cubic,$1 --runs 1 | grep -o '\"ttlb_ms\":[0-9.]*'"
}

plant() { # FILE SED-SCRIPT
    sed "$2" "$1" >"$tmp/planted"
    if cmp -s "$tmp/planted" "$1"; then die "$1 has no place for the fault: correct $0"; fi
    cp "$tmp/planted" "$1"
}

make_clone() {
    rm -rf "$clone"
    git clone -q "$root" "$clone"
    mkdir "$clone/target"
    tree=$root
    lend_boringssl "$tree"
    if [ -d "${lent:-}" ]; then cp -R "$lent" "$clone/target"; fi
    cd "$clone"
    git config user.name t
    git config user.email t@invalid
    sh scripts/quiche.sh
}

expect() { # SECONDS-AT-START WHAT, of the file found
    took=$(($(date +%s) - $1))
    grep -q "^first bad: .*$2" "$tmp/found" || die "found '$(cat "$tmp/found")' instead of $2"
    echo "found in $took s: $(cat "$tmp/found")" >&2
}

# Plants a fault into the patch that owns the line, and finds it.
bisect_a_hook() { # TOPIC FILE SED-SCRIPT
    plant "$2" "$3"
    sh scripts/patches.sh 2>"$tmp/said"
    patch=$(sed -n 's/^into \(.*\): quiche.*/\1/p' "$tmp/said")
    case $patch in
    "$1"/*) ;;
    *) die "the fault went into '$patch' instead of a patch of $1: correct $0" ;;
    esac
    start=$(date +%s)
    RUN=$(figure slow-start) ABOVE=300 sh scripts/bisect.sh >"$tmp/found"
    expect "$start" "$patch"
    git checkout -q patches
    FORCE=1 sh scripts/quiche.sh
}

# Fault: the window does not grow in slow start, with and without Careful Resume.
bisect_careful_resume() {
    bisect_a_hook 20-careful-resume quiche/src/recovery/congestion/recovery.rs \
        's/\(self.careful_resume_on_acked(.*)\);/{ self.congestion.app_limited = true; \1 };/'
}

# Fault: one of eight packets is not acknowledged if an ACK begins with it.
bisect_performance() {
    bisect_a_hook 40-performance quiche/src/recovery/congestion/recovery.rs \
        's/position(&self.sent_packets, peer_sent_range.start)/position(\&self.sent_packets, peer_sent_range.start + peer_sent_range.start % 8 \/ 7)/'
}

# Fault: a connection jumps to a sixteenth of the saved capacity instead of half.
bisect_our_history() {
    good=$(git rev-parse HEAD)
    for change in 1 2 3 4 5; do
        if [ "$change" -eq 3 ]; then plant quiche/src/recovery/careful_resume/jump_decision.rs 's,saved_cwnd / 2,saved_cwnd / 16,'; fi
        echo "$change" >>quiche/FORK.md
        git commit -qam "change $change"
    done
    start=$(date +%s)
    GOOD=$good RUN=$(figure careful-resume) ABOVE=150 sh scripts/bisect-history.sh >"$tmp/found"
    expect "$start" 'change 3'
}

clone=$root/target/bisect-test
make_clone
bisect_careful_resume
bisect_performance
bisect_our_history
rm -rf "$clone"
