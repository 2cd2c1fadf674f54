#!/bin/sh
# make layers-check: each module has a first line, which names its subject, and no
# paragraph of its headline begins with a question word.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "${HEADLINES_ROOT:-$root}"
{ git ls-files -co --exclude-standard '*.rs' 2>/dev/null || find . -name '*.rs' | sed 's|^\./||'; } |
    while read -r file; do
        if [ -f "$file" ]; then printf '%s\0' "$file"; fi
    done | xargs -0 awk '
    function complain(text) { print "error: " text; bad = 1 }
    function end_file() {
        if (file && !done) complain(file ": begin with a line //! that names the subject")
    }
    FNR == 1 { end_file(); file = FILENAME; done = 0; begins = 1 }
    /^\/\/!/ {
        done = 1
        if (begins && /^\/\/! (What|Who|Whose|Where|When|How|Why)([ ,]|$)/)
            complain(file ": begin with the term, not with a question word: " $0)
        begins = /^\/\/! *$/
    }
    END { end_file(); exit bad }' >&2
