#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Asks the driver of this machine's GPU the conformance questions again, and shows where its answers are no longer those
# of the golden files: after a change of a question, or with another driver.
#
#     scripts/gpu_test.sh [CHAPTER…]
#
# Needs what gpu_golden.sh needs.
set -euo pipefail

golden=$(cd "$(dirname "$0")/.." && pwd)/tests/conformance/golden
answers=$(mktemp -d)
trap 'rm -rf "$answers"' EXIT
OUT=$answers "$(dirname "$0")/gpu_golden.sh" "$@"

# Without the lines that name the driver, and without answers that were never the same twice.
significant()
{
	grep -v -e '^#' -e ' = varies$' "$1"
}

changed=0
for file in "$answers"/*.txt; do
	name=$(basename "$file")
	diff -u --label "golden/$name" --label "this driver" <(significant "$golden/$name") <(significant "$file") ||
		changed=$((changed + 1))
done
echo "$changed chapters changed"
exit $((changed > 0))
