#!/bin/sh
# sh tests/run.sh [--no-install] [-D<option>=<value>...] [arguments of ctest]
# sh tests/run.sh --matrix[=quick] [PATTERN]    many compilers, flags, sanitizers, processors: see matrix/run.sh
# sh tests/run.sh --calibrate [arguments]       the harness held against its promises: see calibration/main.cpp
#
# Builds the tests, installing what is missing, and runs them. CXX chooses the compiler. Each compiler and each set of
# -D options (-DHEADWISE_SANITIZE=address,undefined) has a build folder of its own.
set -u
root=$(cd "$(dirname "$0")/.." && pwd -P) || exit 2
. "$root/examples/setup.sh"

options=
what=tests
for argument; do
    shift
    case $argument in
        --matrix) what=whole ;;
        --matrix=quick) what=quick ;;
        --matrix=*) echo "run.sh: '$argument' is neither --matrix nor --matrix=quick" >&2; exit 2 ;;
        --calibrate) what=calibrate ;;
        --no-install) install_allowed=no ;;
        -D?*) options="$options $argument" ;;
        *) set -- "$@" "$argument" ;;
    esac
done

case $what in
    whole | quick)
        [ "$install_allowed" = yes ] || set -- --no-install "$@"
        exec sh "$root/tests/matrix/run.sh" $what "$@" ;;
esac
# shellcheck disable=SC2086  # options are words
prepare tests $options
if [ $what = calibrate ]; then
    build_target calibrate
    exec "$build/tests/calibration/calibrate" "$@"
fi
build_target all
exec ctest --test-dir "$build" --output-on-failure -j "$jobs" "$@"
