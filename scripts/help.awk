# Lists the targets of a Makefile: `##@ Heading` lines, and what follows `##`.
BEGIN { FS = ":.*## " }
/^##@ / { printf "%s%s\n", sep, substr($0, 5); sep = "\n" }
/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $1, $2 }
