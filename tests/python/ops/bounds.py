"""How closely results must agree: the one table.

Two results of a case agree where they are equal (NaN with NaN), or where both are finite and
    |a - b| <= ulps * ulp(b) + scale * eps * max|b|
with max over the whole array: what is rounded many times in another order has errors in proportion
to the numbers that went in, not to a result that may have cancelled. ulp and eps are those of the
type of the case: float32 results of a float16 case are made of halves. Results in float32 may
differ by one smallest normal number more, since XLA and TensorFlow flush denormals to zero where we
keep them. Integers and bools always agree exactly.

float32 has one bound against all: the order of sums, polynomials and fused multiply-adds differ.
float16 has three. Against our reference kernels it is narrow: both round after every HLO
instruction (a kernel that computes in float32 inside one instruction is off by its last bit where
that straddles two halves). XLA on CPUs computes chains of halves in float32 and rounds at the end.
TensorFlow's kernels do that inside a kernel, and some (matrix products) sum in halves.
"""

from typing import NamedTuple

import numpy as np


class Bound(NamedTuple):
    f32: tuple  # ulps, scale
    f16_reference: tuple
    f16_xla: tuple
    f16_tf: tuple
    why: str

    def against(self, peer, dtype):
        """(ulps, scale) against "reference", "xla" or "tf"."""
        return getattr(self, f"f16_{peer}") if dtype == np.float16 else self.f32


BOUNDS = {
    "exact": Bound((0, 0), (0, 0), (0, 0), (0, 0), "nothing is rounded, or once and correctly"),
    "math": Bound((12, 0), (1, 0), (1, 0), (1, 0),
                  "a polynomial of ours, one of XLA's or Eigen's (up to 7 ulps off); a half is the "
                  "rounding of a float32 that is a few ulps off"),
    "formula": Bound((8, 1), (1, 1), (4, 1), (4, 1),
                     "lowered to a few HLO instructions, each of which rounds halves; TensorFlow's "
                     "own kernels use other formulas"),
    "gamma": Bound((64, 8), (2, 1), (2, 2), (2, 2),
                   "Lanczos' formula in HLO instructions, by its definition in XLA: the sum of its "
                   "terms cancels"),
    "sum": Bound((4, 8), (1, 1), (2, 2), (2, 2),
                 "sums in another order; halves are summed in float32 and rounded once"),
    "product": Bound((16, 0), (4, 4), (16, 8), (16, 8),
                     "products of many factors in another order: each adds half an ulp"),
    "dot": Bound((4, 16), (1, 1), (2, 2), (8, 8),
                 "sums of products in another order, with fused multiply-adds in oneDNN and Eigen"),
    "norm": Bound((16, 64), (2, 4), (4, 8), (4, 8),
                  "means, variances and what is divided by them: a cancelled difference is divided "
                  "by a small number"),
    "chain": Bound((8, 32), (2, 4), (8, 16), (8, 16),
                   "several roundings and a sum; each HLO instruction rounds halves in ours"),
    "network": Bound((16, 256), (8, 32), (32, 64), (32, 64),
                     "several layers of chains and their gradients"),
}


def difference(got, want, bound, grain=None):
    """None where the arrays agree within (ulps, scale), else words about the worst element. `grain`
    is the type whose ulps and eps count; None: that of the arrays."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if got.dtype.kind in "biu":
        wrong = got != want
        error = None
    else:
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        finite = np.isfinite(got) & np.isfinite(want)
        kind = np.finfo(got.dtype)
        eps = float(np.finfo(grain if grain is not None else got.dtype).eps)
        wide_got = np.where(finite, got, 0).astype(np.float64)
        wide_want = np.where(finite, want, 0).astype(np.float64)
        ulps, scale = bound
        largest = np.max(np.abs(wide_want), initial=0.0)
        # The largest number has no spacing to the next.
        below_largest = np.nextafter(kind.max, got.dtype.type(0))
        ulp = np.spacing(np.minimum(np.abs(wide_want).astype(got.dtype), below_largest))
        ulp = ulp.astype(np.float64)
        ulp *= max(1.0, eps / float(kind.eps))
        allowed = ulps * ulp + scale * eps * largest
        if got.dtype != np.float16:
            allowed += float(kind.tiny)
        error = np.abs(wide_got - wide_want)
        wrong = ~(same | (finite & (error <= allowed)))
        error = np.where(finite, error / ulp, np.inf)
    if not wrong.any():
        return None
    worst = np.argmax(np.where(wrong, 1 if error is None else error, -1))
    place = np.unravel_index(worst, got.shape)
    words = (f"{np.count_nonzero(wrong)} of {got.size} elements, the worst at "
             f"{list(map(int, place))}: {got[place]!r} instead of {want[place]!r}")
    if error is not None:
        words += (f" ({error[place]:.3g} ulps; allowed {bound[0]}, and {bound[1]} of max "
                  f"{largest:.3g})")
    return words
