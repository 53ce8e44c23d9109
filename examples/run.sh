#!/bin/sh
# sh examples/run.sh [--no-install] [arguments of profile_scores]
#
# Builds profile_scores, installing what is missing, and runs it: without arguments on a small random case and on real
# tensors; --help shows the rest. File names are relative to the caller's folder. CXX chooses the compiler.
set -u
root=$(cd "$(dirname "$0")/.." && pwd -P) || exit 2
. "$root/examples/setup.sh"

program=profile_scores
for argument; do
    shift
    case $argument in
        --no-install) install_allowed=no ;;
        *) set -- "$@" "$argument" ;;
    esac
done

prepare examples
build_target "$program"
exec "$build/examples/$program" "$@"
