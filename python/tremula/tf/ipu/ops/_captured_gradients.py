"""Gradients that layers have captured (grad_util_ops.py), and the optimizers that take them."""

import inspect

from tremula.tf.runtime.tracing import accumulation


def of(made):
    """{tag: gradients} that layers have captured for an OptimizerFunctionOutput."""
    where = made.tape if made.gradient_capture_context is None else made.gradient_capture_context
    return getattr(where, "captured_gradients", None) or {}


def are_taken_by(optimizer):
    """Whether apply_gradients() of an optimizer takes them, as `captured_grads`."""
    supports = getattr(optimizer, "supports_captured_grads", None)
    if supports is not None:
        return supports
    return "captured_grads" in inspect.signature(optimizer.apply_gradients).parameters


def sums(captured):
    """{tag: Accumulators} for captured gradients, which may be None."""
    return {tag: [accumulation.Accumulator(one, None, f"captured {tag}") for one in gradients]
            for tag, gradients in (captured or {}).items()}


def pairs(totals, captured):
    """The (total, gradient) of what sums() gave for captured gradients."""
    return [pair for tag, of_tag in totals.items() for pair in zip(of_tag, captured[tag])]
