"""Functions of JAX and the arrays that they are tried with: {name: (function, arguments)}."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RANDOM = np.random.default_rng(7)


def floats(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def integers(*shape, low=0, high=10, dtype=np.int32):
    return RANDOM.integers(low, high, shape).astype(dtype)


A, B, V = floats(4, 6), floats(6, 5), floats(24)
POSITIVE = np.abs(floats(4, 6)) + 0.1
UNIT = np.tanh(floats(4, 6)) * 0.9
WHOLE = integers(4, 6, low=-9)
SQUARE = floats(5, 5)
DEFINITE = SQUARE @ SQUARE.T + 2 * np.eye(5, dtype=np.float32)
IMAGES, KERNEL = floats(2, 9, 8, 3), floats(3, 3, 3, 4)
KEY = np.array([7, 11], np.uint32)
CASES = {}


def add(name, function, *arguments):
    assert name not in CASES, name
    CASES[name] = function, arguments


# ---- Elementwise ---------------------------------------------------------------------------------

for _name in ("sin cos tan sinh cosh tanh exp expm1 abs negative sign floor ceil round rint trunc "
              "square cbrt arctan arcsinh isfinite isnan signbit sinc deg2rad exp2 nan_to_num "
              "positive fabs i0 frexp modf").split():
    add(f"jnp.{_name}", getattr(jnp, _name), A)
for _name in "sqrt log log2 log10 log1p reciprocal".split():
    add(f"jnp.{_name}", getattr(jnp, _name), POSITIVE)
for _name in "arcsin arccos arctanh".split():
    add(f"jnp.{_name}", getattr(jnp, _name), UNIT)
add("jnp.arccosh", jnp.arccosh, POSITIVE + 1)
for _name in ("add subtract multiply divide maximum minimum arctan2 hypot copysign fmod mod "
              "floor_divide remainder logaddexp logaddexp2 heaviside nextafter fmax fmin "
              "float_power equal less_equal greater divmod").split():
    add(f"jnp.{_name}", getattr(jnp, _name), POSITIVE, A)
add("jnp.power", jnp.power, POSITIVE, A)
add("jnp.ldexp", jnp.ldexp, A, WHOLE)
for _name in ("bitwise_and bitwise_or bitwise_xor gcd lcm floor_divide mod divide power "
              "true_divide not_equal").split():
    add(f"jnp.{_name} of integers", getattr(jnp, _name), np.abs(WHOLE) + 1, np.abs(WHOLE[::-1]) + 1)
add("shifts", lambda x: (x << 2, x >> 1, lax.shift_right_logical(x, 3)), WHOLE)
add("bits", lambda x: (lax.population_count(x), lax.clz(x), ~x, jnp.bitwise_count(x)),
    WHOLE.astype(np.uint32))
add("bitcast", lambda x: (lax.bitcast_convert_type(x, jnp.int32), x.view(jnp.int16)), A)
add("complex", lambda x: (jnp.exp(1j * x), jnp.abs(x + 2j * x), jnp.angle(x + 1j), (1j * x).conj(),
                          jnp.sqrt(x + 1j), jnp.log(x + 0j), jnp.sin(x + 1j)), A)
for _dtype in ("float16", "bfloat16", "int8", "int16", "uint8", "uint32"):
    add(f"arithmetic of {_dtype}",
        functools.partial(lambda t, x: (x.astype(t) * 2 + 1, x.astype(t) // 3,
                                        x.astype(t).astype(jnp.float32), (x.astype(t) > 1).sum(),
                                        jnp.max(x.astype(t), 0)), _dtype), np.abs(A) * 10)
add("reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), A)
add("clip and where", lambda x: jnp.clip(jnp.where(x > 0, x, 2 * x), -1, 1), A)
add("select_n", lambda x: lax.select_n(jnp.abs(x.astype(jnp.int32)) % 3, x, -x, 2 * x), A)

# ---- Shapes and indices --------------------------------------------------------------------------

add("reshape and move", lambda x: (x.T, x.reshape(3, 8), x.ravel(), jnp.moveaxis(x[None], 0, 2),
                                   jnp.swapaxes(x, 0, 1), x[None].squeeze(0)), A)
add("joins", lambda x: (jnp.concatenate([x, x], 1), jnp.stack([x, x]), jnp.tile(x, (2, 1)),
                        jnp.repeat(x, 2, 0), jnp.hstack([x, x]), jnp.split(x, 2, 0)), A)
add("pads", lambda x: [jnp.pad(x, ((1, 2), (0, 1)), mode=mode) for mode in (
    "constant", "edge", "reflect", "wrap", "symmetric", "mean", "linear_ramp")], A)
add("lax.pad", lambda x: lax.pad(x, 0.5, [(1, -1, 1), (-1, 2, 0)]), A)
add("flip and roll", lambda x: (jnp.flip(x), jnp.roll(x, 2, 1), jnp.rot90(x), x[::-2, 1::2]), A)
add("triangles", lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x), jnp.diag(x[0]),
                            jnp.trace(x), jnp.eye(3, 4), jnp.tri(3)), A)
add("ranges", lambda x: (jnp.arange(5) + x[0, 0], jnp.linspace(0, x[0, 0], 5),
                         jnp.logspace(0, 1, 4) * x[0, 0], jnp.meshgrid(x[0], x[:, 0])), A)
add("slices", lambda x, i: (lax.dynamic_slice(x, (i, 1), (2, 3)), x[i], x[:, i],
                            lax.dynamic_update_slice(x, x[:1, :2], (i, 0)),
                            lax.dynamic_index_in_dim(x, i, 1), x[1:3, ::2]), A, 2)
add("gathers", lambda x, i: (x[i], x[:, i], x[i, i], jnp.take(x, i, axis=1, mode="clip"),
                             jnp.take(x, i, mode="wrap"), jnp.take(x, i + 3, axis=0, mode="fill"),
                             jnp.take_along_axis(x, i[:, None] % 6, 1), x[i[:, None], i[None]]),
    A, integers(4, high=4))
add("scatters", lambda x, i: (x.at[i].set(0), x.at[i].add(1), x.at[:, i].mul(2),
                              x.at[i, i].min(0), x.at[i].max(0.5), x.at[i + 3].set(1),
                              x.at[i[:, None], i[None]].add(x[:4, :4]), x.at[1].apply(jnp.sin),
                              x.at[i].divide(2)), A, integers(4, high=4))
add("masks", lambda x: (jnp.where(x > 0, size=9, fill_value=-1), jnp.argwhere(x > 1, size=3),
                        jnp.nonzero(x > 0, size=7), jnp.extract(x > 0, x, size=4)), A)
add("unique", lambda x: jnp.unique(x, size=8, return_counts=True, return_inverse=True), WHOLE)
add("choices", lambda x: (jnp.choose(jnp.array([0, 1, 1, 0]), [x[:, 0], x[:, 1]],
                                     mode="clip"),
                          jnp.select([x > 1, x > 0], [x, -x], 3), jnp.searchsorted(
                              jnp.sort(x.ravel()), jnp.array([0., 1.])), jnp.digitize(
                                  x, jnp.array([-1., 0, 1]))), A)
add("counts", lambda x: (jnp.bincount(jnp.abs(x).ravel(), length=12), jnp.histogram(
    x.astype(float), bins=5), jax.nn.one_hot(x % 4, 4)), WHOLE)

# ---- Reductions, scans, sorts --------------------------------------------------------------------

for _name in ("sum mean var std max min prod argmax argmin all any ptp median nansum nanmean "
              "nanmax count_nonzero cumsum cumprod cumulative_sum logsumexp").split():
    _function = jax.nn.logsumexp if _name == "logsumexp" else getattr(jnp, _name, None)
    if _function is not None:
        add(f"jnp.{_name} of axes", functools.partial(
            lambda f, x: (f(x, axis=0), f(x, axis=1), f(x.ravel())), _function), A)
for _name in "sum max min prod".split():
    add(f"jnp.{_name} of integers", functools.partial(
        lambda f, x: (f(x, axis=0), f(x, axis=1, keepdims=True), f(x)), getattr(jnp, _name)), WHOLE)
for _name in "cumsum cumprod cummax cummin cumlogsumexp".split():
    add(f"lax.{_name}", functools.partial(
        lambda f, x: (f(x, axis=0), f(x, axis=1, reverse=True)), getattr(lax, _name)), A)
add("lax.reduce", lambda x: (lax.reduce(x, 1.0, lambda a, b: a * b, (0,)),
                             lax.reduce((x, x > 0), (0.0, False), lambda a, b: (
                                 a[0] + b[0], a[1] | b[1]), (1,))), A)
add("reduce_window", lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), "SAME"),
                                lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
                                lax.reduce_window(x, 0.0, lax.add, (4, 6), (1, 1),
                                                  ((3, 0), (5, 0)))), A)
add("associative_scan", lambda x: lax.associative_scan(jnp.maximum, x, axis=1), A)
add("sorts", lambda x: (jnp.sort(x), jnp.sort(x, axis=0), jnp.argsort(x), jnp.argsort(
    x, axis=0, stable=True), -jnp.sort(-x), jnp.lexsort((x[0], x[1])), jnp.sort(x.ravel())), A)
add("sort of pairs", lambda x, y: lax.sort((y, x), num_keys=2, dimension=1), A, WHOLE)
add("sort of complex numbers", lambda x: jnp.sort(x + 1j * x[::-1]), np.round(A))
add("top_k", lambda x: (lax.top_k(x, 3), jnp.partition(x, 2), jnp.percentile(x, 30.0),
                        jnp.quantile(x, 0.25, axis=0)), A)
add("approx_max_k", lambda x: lax.approx_max_k(x, 2), A)
add("convolve", lambda x, y: (jnp.convolve(x, y), jnp.correlate(x, y, "same"), jnp.interp(
    x, jnp.arange(4.0), y[:4]), jnp.diff(x), jnp.gradient(x), jnp.cov(x, x), jnp.corrcoef(
        x, x + 1)), V, V[:5])

# ---- Linear algebra ------------------------------------------------------------------------------

add("products", lambda x, y: (x @ y, jnp.dot(x[0], x[1]), jnp.outer(x[0], y[0]), jnp.vdot(x, x),
                              jnp.kron(x[:2, :2], y[:2, :2]), jnp.cross(x[:, :3], x[:, 3:]),
                              jnp.tensordot(x, y, ((1,), (0,)))), A, B)
add("einsum", lambda x, y: (jnp.einsum("ij,jk->ki", x, y), jnp.einsum("ij,ij->i", x, x),
                            jnp.einsum("bij,bjk->bik", x.reshape(2, 2, 6), jnp.stack([y, y])),
                            jnp.einsum("ii->i", y[:5])), A, B)
for _in, _out in (("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32")):
    add(f"dot of {_in} into {_out}", functools.partial(
        lambda i, o, x, y: lax.dot_general(x.astype(i), y.astype(i), (((1,), (0,)), ((), ())),
                                           preferred_element_type=o), _in, _out), A * 3, B * 3)
add("cholesky", jnp.linalg.cholesky, DEFINITE)
add("triangular_solve", lambda a, b: [lax.linalg.triangular_solve(
    a, b, left_side=True, lower=lower, transpose_a=transposed)
    for lower in (False, True) for transposed in (False, True)], DEFINITE, SQUARE)
add("solve", lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.det(a),
                           jnp.linalg.slogdet(a)), DEFINITE, SQUARE)
add("lu", jax.scipy.linalg.lu, DEFINITE)
add("qr", lambda a: jnp.linalg.qr(a)[1], SQUARE)
add("singular values", lambda a: jnp.linalg.svd(a, compute_uv=False), SQUARE)
add("eigenvalues", lambda a: jnp.linalg.eigvalsh(a), DEFINITE)
add("norms", lambda a: (jnp.linalg.norm(a), jnp.linalg.norm(a, 1), jnp.linalg.matrix_power(a, 3),
                        jnp.linalg.matrix_rank(a), jnp.linalg.pinv(a)), DEFINITE)
add("expm", lambda a: jax.scipy.linalg.expm(a / 20), DEFINITE)
add("fft", lambda x: (jnp.fft.fft(x), jnp.fft.ifft(x), jnp.fft.rfft(x), jnp.fft.irfft(x + 0j),
                      jnp.fft.fft2(x), jnp.fft.fftshift(x), jnp.fft.rfft2(x)), A)

# ---- Convolutions and windows --------------------------------------------------------------------

_NHWC = ("NHWC", "HWIO", "NHWC")
for _text, _options in {
        "same": {"padding": "SAME"}, "strided": {"padding": "VALID", "window_strides": (2, 2)},
        "dilated": {"padding": "SAME", "rhs_dilation": (2, 1)},
        "transposed": {"padding": ((2, 2), (1, 2)), "lhs_dilation": (2, 2)}}.items():
    add(f"convolution {_text}", functools.partial(
        lambda o, x, k: lax.conv_general_dilated(
            x, k, dimension_numbers=_NHWC, **{"window_strides": (1, 1), **o}), _options),
        IMAGES, KERNEL)
add("convolution grouped", lambda x, k: lax.conv_general_dilated(
    x, k, (1, 1), "SAME", dimension_numbers=_NHWC, feature_group_count=3), IMAGES,
    floats(3, 3, 1, 6))
add("convolution of one and three dimensions", lambda x, k, y, z: (
    lax.conv_general_dilated(x, k, (1,), "SAME"),
    lax.conv_general_dilated(y, z, (1, 1, 1), "VALID")),
    floats(2, 3, 9), floats(2, 3, 4), floats(1, 3, 4, 5, 6), floats(2, 3, 2, 2, 2))
add("conv_transpose", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), IMAGES, KERNEL)
add("resize", lambda x: [jax.image.resize(x, (2, 5, 12, 3), method) for method in (
    "nearest", "linear", "cubic", "lanczos3")], IMAGES)
add("map_coordinates", lambda x, i: jax.scipy.ndimage.map_coordinates(x, [i, i], 1), A,
    np.abs(V) * 2)

# ---- Neural networks -----------------------------------------------------------------------------

for _name in ("relu relu6 sigmoid softplus soft_sign silu log_sigmoid leaky_relu hard_sigmoid "
              "hard_silu hard_tanh elu celu selu gelu softmax log_softmax glu standardize "
              "squareplus mish sparse_plus").split():
    if hasattr(jax.nn, _name):
        add(f"nn.{_name}", getattr(jax.nn, _name), A)
add("exact gelu", functools.partial(jax.nn.gelu, approximate=False), A)
if hasattr(jax.nn, "dot_product_attention"):
    add("attention", lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True),
        floats(2, 6, 3, 4))
add("pools", lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
                        lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")),
    IMAGES)


def layer_norm(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


add("layer norm", layer_norm, A)


def cross_entropy(w, x, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), labels[:, None], 1).mean()


def network(k, x):
    x = jax.nn.relu(lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=_NHWC))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return layer_norm(x.reshape(x.shape[0], -1)).std() + x.mean()


add("gradient of a classifier", jax.value_and_grad(cross_entropy), B, A, integers(4, high=5))
add("gradient of a network", jax.value_and_grad(network), KERNEL, IMAGES)
add("second derivatives", lambda x: (jax.hessian(lambda v: jnp.tanh(v @ v))(x),
                                     jax.jacfwd(jnp.sin)(x), jax.jacrev(jnp.cumsum)(x),
                                     jax.jvp(jnp.tanh, (x,), (x,))), V[:5])
add("gradients of sorts and gathers", lambda x, i: jax.grad(
    lambda x: (jnp.sort(x, 1)[:, ::2] ** 2).sum() + x[i].max() + jnp.cumsum(x).std())(x), A,
    integers(3, high=4))
add("gradients of factorisations", lambda a: jax.grad(
    lambda a: jnp.linalg.cholesky(a).sum() + jnp.linalg.solve(a, a[0]).sum() + jnp.linalg.slogdet(
        a)[1])(a), DEFINITE)
add("vmap", lambda x, y: (jax.vmap(jnp.dot, (None, 1))(x, y), jax.vmap(jax.vmap(jnp.sin))(x),
                          jax.vmap(lambda v: lax.dynamic_slice(v, (v.argmax() % 3,), (2,)))(x),
                          jax.vmap(lambda v, i: v.at[i].add(1))(x, jnp.arange(4))), A, B)
add("checkpoint", jax.grad(lambda x: jax.checkpoint(lambda v: jnp.sin(jnp.cos(v)))(x).sum()), A)
add("custom_vjp and stop_gradient", jax.grad(lambda x: (jax.nn.relu(x) * lax.stop_gradient(
    x)).sum() + jax.nn.silu(x).sum()), A)

# ---- Control flow --------------------------------------------------------------------------------


def rnn(w, xs):
    def cell(h, x):
        h = jnp.tanh(x @ w + h)
        return h, h.sum()
    return lax.scan(cell, jnp.zeros(6), xs)


def lstm_loss(w, xs):
    def cell(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h]) @ w, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), c
    (h, _), cs = lax.scan(cell, (jnp.zeros(3), jnp.zeros(3)), xs)
    return (h ** 2).sum() + cs.mean()


add("scan", rnn, floats(6, 6), floats(7, 6))
add("gradient of a scan", jax.value_and_grad(lstm_loss), floats(9, 12), floats(8, 6))
add("scan reversed and unrolled", lambda xs: (lax.scan(lambda c, x: (c * 0.5 + x, c), 0.0, xs,
                                                       reverse=True),
                                              lax.scan(lambda c, x: (c + x, c), 0.0, xs, unroll=4),
                                              lax.map(jnp.sin, xs)), V)
add("while", lambda x: lax.while_loop(lambda s: s[0] < 100, lambda s: (s[0] * 1.5, s[1] + 1),
                                      (x, 0)), 1.0)
add("fori_loop", lambda x, n: (lax.fori_loop(0, 5, lambda i, v: v * 2 + i, x),
                               lax.fori_loop(0, n, lambda i, v: v.at[i % 4].add(1), x)), A, 6)
add("cond and switch", lambda x, i: (lax.cond(i > 1, jnp.sin, jnp.cos, x),
                                     lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 2], x),
                                     jax.vmap(lambda v: lax.cond(v > 0, lambda: v, lambda: -v))(
                                         x[0])), A, 2)
add("loop in a loop", lambda x: lax.fori_loop(0, 3, lambda i, v: lax.while_loop(
    lambda s: s.sum() < 50, lambda s: s + 1, v) - 9, x), np.abs(A))

# ---- Random numbers ------------------------------------------------------------------------------

for _name, _options in {
        "bits": {}, "uniform": {}, "normal": {}, "bernoulli": {}, "gumbel": {}, "exponential": {},
        "laplace": {}, "logistic": {}, "cauchy": {}, "rademacher": {}, "truncated_normal": {
            "lower": -1.0, "upper": 2.0}, "randint": {"minval": 0, "maxval": 50},
        "gamma": {"a": 2.0}, "beta": {"a": 2.0, "b": 3.0}, "poisson": {"lam": 3.0}, "dirichlet": {
            "alpha": np.ones(3, np.float32)}, "t": {"df": 4.0}, "ball": {"d": 3}}.items():
    if hasattr(jax.random, _name):
        add(f"random.{_name}", functools.partial(
            lambda f, o, key: f(key, shape=(3, 4), **o) if f is not jax.random.dirichlet else f(
                key, o["alpha"], (4,)), getattr(jax.random, _name), _options), KEY)
add("random.split", lambda key: (jax.random.split(key, 3), jax.random.fold_in(key, 5)), KEY)
add("random.choice", lambda key: (jax.random.permutation(key, 9), jax.random.choice(
    key, 9, (4,), replace=False), jax.random.categorical(key, jnp.zeros((3, 4)))), KEY)
add("random.multivariate_normal", lambda key, c: jax.random.multivariate_normal(
    key, jnp.zeros(5), c, method="cholesky"), KEY, DEFINITE)
add("rng_bit_generator", lambda key: lax.rng_bit_generator(jnp.tile(key, 2), (5,)), KEY)
add("rbg keys", lambda key: jax.random.uniform(jax.random.wrap_key_data(
    jnp.tile(key, 2), impl="rbg"), (4,)), KEY)

# ---- jax.scipy -----------------------------------------------------------------------------------

for _name in ("erf erfc erfinv gammaln digamma i0e i1 i1e expit logit ndtr ndtri log_ndtr entr "
              "exp1 expi gamma factorial").split():
    if hasattr(jax.scipy.special, _name):
        add(f"special.{_name}", getattr(jax.scipy.special, _name), np.abs(UNIT) * 0.9 + 0.05)
for _name in "betainc betaln gammainc gammaincc polygamma xlogy xlog1py rel_entr zeta".split():
    _first = {"polygamma": np.ones((4, 6), np.int32), "zeta": POSITIVE + 1.5}.get(_name, POSITIVE)
    add(f"special.{_name}", functools.partial(
        lambda n, x, y: getattr(jax.scipy.special, n)(x, y + 1, jnp.tanh(y)) if n == "betainc"
        else getattr(jax.scipy.special, n)(x, y + 0.5), _name), _first, POSITIVE)
add("scipy.stats", lambda x: (jax.scipy.stats.norm.logpdf(x), jax.scipy.stats.t.logpdf(x, 3.0),
                              jax.scipy.stats.gamma.logpdf(jnp.abs(x), 2.0),
                              jax.scipy.stats.norm.cdf(x), jax.scipy.stats.rankdata(x)), A)
add("scipy.signal", lambda x, y: (jax.scipy.signal.convolve(x, y), jax.scipy.signal.fftconvolve(
    x, y, mode="same"), jax.scipy.signal.detrend(x)), V, V[:5])
add("cg", lambda a, b: jax.scipy.sparse.linalg.cg(a, b)[0], DEFINITE, SQUARE[0])
