#!/usr/bin/env bash
# make style: runs clang-format, clang-tidy and ruff over the tree. Changes nothing.
#   scripts/style.sh [--analyze]   --analyze: with the analyzer of clang-tidy, which takes minutes
# Needs the set-up of `make test`: the environment .venv and the configured build/release.
set -uo pipefail
cd "$(dirname "$0")/.."
tools=.venv/bin
checks=--checks=-clang-analyzer-*
if [ "${1:-}" = --analyze ]; then checks=--checks=; fi
failed=0

git ls-files '*.c' '*.h' | xargs "$tools/clang-format" --dry-run -Werror || failed=1
"$tools/ruff" check --quiet . || failed=1

# clang has no omp.h of its own here, cannot read all of gcc's, and writes CMPLX in another way.
headers=$PWD/build/style
mkdir -p "$headers"
sed 's/__malloc__ (omp_free)/__malloc__/' "$(gcc -print-file-name=include)/omp.h" >"$headers/omp.h"
git ls-files 'src/*.c' 'tools/*.c' |
  xargs -P "$(nproc)" -n 10 "$tools/clang-tidy" -p build/release --quiet "$checks" \
    --extra-arg="-isystem$headers" --extra-arg=-w \
    --extra-arg='-DCMPLX(x,y)=__builtin_complex((double)(x),(double)(y))' 2>/dev/null || failed=1

if [ $failed = 0 ]; then echo "style: 3 checks passed"; else echo "style: checks failed"; fi
exit $failed
