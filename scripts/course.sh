#!/usr/bin/env bash
# make course: sets up as make demo does, and runs the notebooks of course/.
#   scripts/course.sh [open]   open: writes them as .ipynb, and starts JupyterLab there
source "$(dirname "$0")/common.sh"
need_command g++ g++ # chapter 9
set_up
export PATH=$PWD/.venv/bin:$PATH
if [ "${1:-}" != open ]; then
  exec .venv/bin/python scripts/course.py run
fi
install_packages .venv jupyter jupyterlab==4.4.10 ipykernel==6.31.0
.venv/bin/python scripts/course.py notebooks
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2} # what TensorFlow says of the machine
root=() # which Jupyter refuses to run as, unless told
if [ "$(id -u)" -eq 0 ]; then root=(--allow-root); fi
# Not `jupyter lab course`: that would not find ../docs.
exec .venv/bin/jupyter lab ${root[@]+"${root[@]}"} \
  --LabApp.default_url=/lab/tree/course/01_first_program.ipynb
