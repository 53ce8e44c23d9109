#!/bin/sh
# sh tests/run.sh [--no-install] [-D<option>=<value>...] [arguments of ctest]
#
# Builds the tests, installing what is missing, and runs them. CXX chooses the compiler. Each compiler and each set of
# -D options (-DHEADWISE_SANITIZE=address,undefined) has a build folder of its own.
set -u
root=$(cd "$(dirname "$0")/.." && pwd -P) || exit 2
. "$root/examples/setup.sh"

options=
for argument; do
    shift
    case $argument in
        --no-install) install_allowed=no ;;
        -D?*) options="$options $argument" ;;
        *) set -- "$@" "$argument" ;;
    esac
done

# shellcheck disable=SC2086  # options are words
prepare tests $options
build_target all
exec ctest --test-dir "$build" --output-on-failure -j "$jobs" "$@"
