#!/bin/sh
# sh speedscope.sh TRACE PICTURE: opens a trace in speedscope, in headless Chromium, and takes a picture of it. Skips
# (status 77), with a line that says why, where npm, Chromium or the registry are missing. FOLDER, if set, keeps what
# npm installs.
set -eu
trace=$1 picture=$2
here=$(cd "$(dirname "$0")" && pwd -P)

skip() {
    echo "skipped: $1"
    exit 77
}
command -v npm >/dev/null && command -v node >/dev/null || skip "npm is not installed"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    skip "Chromium is not installed"

work=${FOLDER:-$(mktemp -d)}
[ -n "${FOLDER:-}" ] || trap 'rm -rf "$work"' EXIT
[ -d "$work/node_modules/speedscope" ] && [ -d "$work/node_modules/playwright-core" ] ||
    npm install --prefix "$work" --no-audit --no-fund --ignore-scripts speedscope@1 playwright-core@1 >/dev/null 2>&1 ||
    skip "npm cannot install speedscope and playwright-core"
node "$here/speedscope.mjs" "$work" "$trace" "$picture" "$browser"
