#!/bin/sh
# make fmt: formats our own files; --check only checks them. Upstream's files keep
# upstream's formatting: git ignores them, so they are not in the list. Our files
# in quiche/ follow upstream's style as far as a stable rustfmt can.
set -eu
cd "$(dirname "$0")/.."
command -v rustfmt >/dev/null && rustfmt --version >/dev/null || {
    echo "error: rustfmt is missing: rustup component add rustfmt" >&2
    exit 1
}
upstream_style=max_width=82,use_small_heuristics=Default,fn_params_layout=Compressed,match_block_trailing_comma=true

ours() { # PATTERN…: those that exist
    git ls-files -co --exclude-standard "$@" | while read -r file; do
        if [ -f "$file" ]; then printf '%s\0' "$file"; fi
    done
}

status=0
ours '*.rs' ':!quiche' | xargs -0 -r rustfmt "$@" || status=1
ours 'quiche/*.rs' | xargs -0 -r rustfmt --config "$upstream_style" "$@" || status=1
exit $status
