#!/bin/sh
# make layers-check: the first line of a module names its subject, and so begins with
# no question word.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.rs' | while read -r file; do
    if [ -f "$file" ]; then printf '%s\0' "$file"; fi
done | xargs -0 awk '
    FNR == 1 { done = 0 }
    /^\/\/!/ && !done {
        done = 1
        if (/^\/\/! (What|Who|Whose|Where|When|How|Why)([ ,]|$)/) {
            print "error: " FILENAME ": begin with the term, not with a question word: " $0
            bad = 1
        }
    }
    END { exit bad }' >&2
