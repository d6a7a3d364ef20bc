#!/usr/bin/env bash
# make docs: the site of the documentation in build/site, from the pages as they are, with references
# from the sources of Python and C. Warnings are errors. Needs a network once, for the environment
# .venv-docs.
#   scripts/docs.sh [install]   install: only the environment
#   COURSE=1 scripts/docs.sh    runs the course first, whose pages then show what its cells show
source "$(dirname "$0")/common.sh"

if ! .venv-docs/bin/python -m pip --version >/dev/null 2>&1; then
  find_python
  install_missing
  make_environment .venv-docs "$PYTHON"
fi
# The newest that run on every Python from 3.9 on.
install_packages .venv-docs docs sphinx==7.4.7 myst-parser==3.0.1 furo==2024.8.6 \
  docutils==0.21.2 pygments==2.19.2 libclang==18.1.1
if [ "${1:-}" = install ]; then exit; fi
if [ -n "${COURSE:-}" ]; then
  set_up
  PATH=$PWD/.venv/bin:$PATH .venv/bin/python scripts/course.py outputs build/course ||
    die "a chapter of the course failed; see above."
fi
rm -rf build/site
.venv-docs/bin/python -m sphinx -q -j auto -W --keep-going -E -c docs/site -d build/site-pages . \
  build/site || die "the site has warnings, which are above."
say "open build/site/index.html"
