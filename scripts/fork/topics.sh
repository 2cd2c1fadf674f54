# Topics of the series: the folders of patches/ (sourced).

# The topics in their order, with the kind of their patches.
TOPICS='10-fixes fix
20-careful-resume feature
30-options option
40-performance performance'

topic_kind() { # TOPIC
    echo "$TOPICS" | awk -v topic="$1" '$1 == topic { print $2 }'
}

# Prints the topics of patches/series, in its order.
topics() {
    series patches | sed -n 's,/.*,,p' | uniq
}

check_topic() { # TOPIC
    topics | grep -qxF -- "$1" || die "TOPIC=$1: patches/series has the topics $(topics | paste -sd ' ' -)"
}

# Checks TOPIC. An empty one, as of a CI variable that nobody has set, is none; this
# says so, because the caller may have meant one.
choose_topic() {
    if [ -n "${TOPIC:-}" ]; then
        check_topic "$TOPIC"
    elif [ -n "${TOPIC+set}" ]; then
        echo "TOPIC= is empty: every topic, as without it; there are $(topics | paste -sd ' ' -)" >&2
    fi
}

# Prints the numbers, in the whole series, of a topic's first and last patch.
topic_first() { # TOPIC
    series patches | awk -F/ -v topic="$1" '$1 == topic { print NR; exit }'
}

topic_last() { # TOPIC
    series patches | awk -F/ -v topic="$1" '$1 == topic { last = NR } END { print last + 0 }'
}

# Prints the commit of a chain after so many patches.
commit_after() { # TIP NUMBER
    fork_git rev-list --reverse "$1" | sed -n "$(($2 + 1))p"
}

# Prints the topic up to which quiche/ holds the series, or nothing if it holds all.
held_topic() {
    held=$(sed -n 's/^[^ ]* //p' "$fork/stamp" 2>/dev/null || true)
    if [ -n "$held" ] && topics | grep -qxF -- "$held"; then echo "$held"; fi
}
