#!/bin/sh
# sh examples/run.sh [--no-install] [arguments of profile_scores]
# sh examples/run.sh --race [--no-install] [arguments of race_peers]
# sh examples/run.sh --race-attention [--no-install] [arguments of race_attention]
#
# Builds profile_scores, installing what is missing, and runs it: without arguments on a small random case and on real
# tensors; --help shows the rest. File names are relative to the caller's folder. CXX chooses the compiler.
# --race builds and runs race_peers instead, --race-attention race_attention, against the libraries that do the same
# job, which they install.
set -u
root=$(cd "$(dirname "$0")/.." && pwd -P) || exit 2
. "$root/examples/setup.sh"

program=profile_scores
for argument; do
    shift
    case $argument in
        --no-install) install_allowed=no ;;
        --race) program=race_peers ;;
        --race-attention) program=race_attention ;;
        *) set -- "$@" "$argument" ;;
    esac
done

if [ "$program" != profile_scores ]; then
    provide_peers
    prepare examples
    quietly configure cmake "$build" # again: the peers may be new
    build_target "$program"
    exec "$build/examples/$program/$program" "$@"
fi
prepare examples
build_target profile_scores
exec "$build/examples/profile_scores" "$@"
