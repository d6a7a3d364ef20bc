#!/usr/bin/env bash
# make demo: on a fresh machine, from a clone to the results of the examples.
source "$(dirname "$0")/common.sh"

set_up
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-1}
for example in basic_graph compiled_graph sharded_graph feeds resnext; do
  printf '\n'
  say "examples/$example.py: $(sed -n '1s/^# *//p' "examples/$example.py")"
  .venv/bin/python "examples/$example.py" || die "examples/$example.py failed."
done
printf '\n'
say "done. Your own: .venv/bin/python SCRIPT, or, for TensorFlow 1 (import tensorflow as tf):"
say "      .venv/bin/python -m tremula.tf1 SCRIPT"
