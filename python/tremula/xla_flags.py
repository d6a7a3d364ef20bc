"""XLA_FLAGS, as far as Tremula's compiler obeys them: --xla_disable_hlo_passes. (Those about dumps:
src/tf/dumps.c. The others are XLA's own.)"""

import logging
import os
import re

_LOG = logging.getLogger("tremula")

# Tremula's passes that can be left out, and the original's and XLA's passes that do the same.
PASSES = {
    "simplify": ("algebraic-simplifier", "algsimp", "poplar-algebraic-simplifier",
                 "algebraic-optimizer", "reshape-mover", "elementwise-simplifier",
                 "all-reduce-simplifier", "gather-simplifier", "scatter-simplifier",
                 "while-loop-simplifier", "sort-simplifier", "zero_sized_hlo_elimination",
                 "multi-slice-simplifier", "casts-elimination"),
    "simplify-tuples": ("tuple-simplifier",),
    "fold-constants": ("constant-folding", "constant_folding", "f16-constant-folding"),
    "common-subexpressions": ("cse",),
    "expand-batch-norm": ("batchnorm_expander",),
    "hoist": ("while-loop-invariant-code-motion", "slow-while-loop-invariant-code-motion"),
    "fuse": ("fusion", "fuse-ops-early", "fuse-ops-late", "fuse-ops-into-poplar-ops",
             "expression-outliner", "fusion-inliner"),
}

# The original's passes that Tremula has no like of: there is nothing to leave out.
ORIGINAL = frozenset("""
    add-block-recompute add-stochastic-rounding-options all-to-all-finder allocation-finder
    apply-recompute-suggestion call-optimizer combine-instructions
    commutative-instruction-reorder-operands computation-flattener constant-slice-folding
    conv-bwd-input-to-fwd-weights-transpose convolution-classifier copy-inserter
    custom-op-replacer dead-control-dependencies-elimination dependency-replacer
    distributed-batch-norm-decomposer dynamic-slice-replacer elementwise-broadcast-converter
    embeddings-gradient-optimizer fix-root-instructions forward-allocation function-combiner
    function-optimizer gradient-accumulation-buffers-offload gradient-accumulation-fuser
    gradient-accumulation-verifier hlo-computation-name-uniquify hlo-descheduler
    host-compute-barrier-inserter host-compute-schedule-optimizer host-embedding-notification
    inplace-finder inter-ipu-copy-inserter inter-tileset-copy-inserter io-tiles-placer
    lift-recompute-suggestion lower-frontend-attributes map-inliner
    mark-replica-identical-instructions mask-finder matmul-combiner module-flatten
    multi-conv-fixer multi-slice-combiner multi-update-apply multi-update-combiner
    multi-update-scale-apply multi-use-feeds-finder not-supported-gather-expander
    not-supported-scatter-expander outline-instructions outline-remote-buffers
    parse-poplar-backend-config pipeline-batch-serialization-buffer-inserter
    pipeline-batch-serialization-loop-inserter pipeline-communication-optimizer
    pipeline-control-dependency-inserter pipeline-copy-inserter pipeline-feed-hoisting
    pipeline-fifo-inserter pipeline-fixer pipeline-optimizer pipeline-recomputation
    pipeline-recomputation-stage-inserter pipeline-stage-merger pipeline-tuple-remover
    pipeline-verifier poplar-while-loop-optimiser poplar-while-loop-remapper
    post-serialize-gradient-accumulation recompute-casts recompute-instructions
    recomputation-checkpoint-remover recomputation-input-remover
    redundant-triangular-mask-remover remote-buffer-canonicalizer remote-buffer-merger
    remote-parameter-parallel-combiner remove-blocked-recompute-suggestions
    remove-recompute-suggestions repeat-loop-copy-inserter
    replicated-resource-update-elementwise-clustering replication-factor-to-constant
    resource-update-checker resource-update-copy-inserter resource-update-fixer
    resource-update-merger resource-update-schedule-optimizer
    root-token-replacer seed-hoisting serialize-gradient-accumulation sharding-pass slice-optimizer
    suggest-recompute variables-offload-and-partition while-loop-condition-simplify
    while-loop-constant-sinking while-loop-recomputation-optimiser while-loop-to-repeat-simplify
    wide-const-finder""".split())


def disabled_passes():
    """Tremula's passes that XLA_FLAGS disables, a sorted list. Names that neither Tremula nor the
    original has are told in the log: they may be XLA's."""
    chosen, unknown = set(), []
    for name in _names():
        spelled = name.lower().replace("_", "-")
        found = [ours for ours, theirs in PASSES.items() if spelled == ours
                 or spelled in (one.replace("_", "-") for one in theirs)]
        chosen.update(found)
        if not found and spelled not in ORIGINAL:
            unknown.append(name)
    if unknown:
        _LOG.warning("--xla_disable_hlo_passes in XLA_FLAGS names %s: that is no pass of the "
                     "original, and none of Tremula's that can be left out (%s). If XLA has such "
                     "a pass, it obeys.", ", ".join(unknown), ", ".join(sorted(PASSES)))
    return sorted(chosen)


def _names():
    names = []
    for word in _text().split():
        given = re.fullmatch(r"--xla_disable_hlo_passes=['\"]?([^'\"]*)['\"]?", word)
        if given:  # the last one counts
            names = [one for one in given[1].split(",") if one]
    return names


def _text():
    """The variable's value, or the contents of the file that it names."""
    value = os.environ.get("XLA_FLAGS", "").strip()
    if not value or value.startswith("-"):
        return value
    try:
        with open(value, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""  # XLA says so
