"""LAPACK's routines as JAX calls them."""

import os
import pathlib
import shutil

import numpy as np
import pytest
import built
from hlo_texts import TYPES, matrix, run, shape_of

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
LETTERS = {"f32": "s", "f64": "d", "c64": "c"}
BOUND = {"f32": 2e-5, "f64": 1e-12, "c64": 2e-5}


def call(tool, routine, results, *inputs, **options):
    """Runs one routine of LAPACK; the results in order."""
    config = ", ".join(f"{name} = {ord(value)} : ui8" for name, value in options.items())
    parameters = "\n".join(f"  p{i} = {shape_of(v)} parameter({i})" for i, v in enumerate(inputs))
    whole = results[0] if len(results) == 1 else f"({', '.join(results)})"
    dtype = shape_of(inputs[0]).split("[")[0]
    return run(tool, f"""HloModule lapack

ENTRY main {{
{parameters}
  ROOT r = {whole} custom-call({', '.join(f'p{i}' for i in range(len(inputs)))}), \
custom_call_target="lapack_{LETTERS[dtype]}{routine}_ffi", api_version=API_VERSION_TYPED_FFI, \
backend_config={{{config}}}
}}
""", *inputs)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


@pytest.mark.parametrize("dtype", TYPES)
def test_cholesky_and_triangular_systems(tool, dtype):
    b = matrix(dtype, 2, 5, 5)
    a = b @ adjoint(b) + 3 * np.eye(5, dtype=TYPES[dtype])
    factor, info = call(tool, "potrf", [shape_of(a), "s32[2]"], a, uplo="L")
    lower = np.tril(factor)
    np.testing.assert_allclose(lower @ adjoint(lower), a, atol=20 * BOUND[dtype])
    np.testing.assert_array_equal(np.triu(factor, 1), np.triu(a, 1))
    np.testing.assert_array_equal(info, [0, 0])
    _, info = call(tool, "potrf", [shape_of(a), "s32[2]"], -a, uplo="U")
    np.testing.assert_array_equal(info, [1, 1])
    right = matrix(dtype, 2, 5, 3, seed=1)
    for uplo in "LU":
        for trans in "NTC":
            half = np.tril(a) if uplo == "L" else np.triu(a)
            x, = call(tool, "trsm", [shape_of(right)], a, right, side="L", uplo=uplo, trans_x=trans,
                      diag="N")
            op = {"N": half, "T": np.swapaxes(half, -1, -2), "C": adjoint(half)}[trans]
            np.testing.assert_allclose(op @ x, right, atol=20 * BOUND[dtype])
    left = matrix(dtype, 2, 3, 5, seed=2)
    x, = call(tool, "trsm", [shape_of(left)], a, left, side="R", uplo="L", trans_x="N", diag="U")
    unit = np.tril(a, -1) + np.eye(5, dtype=TYPES[dtype])
    np.testing.assert_allclose(x @ unit, left, atol=20 * BOUND[dtype] * np.abs(x).max())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, columns", [(4, 4), (6, 3), (3, 6)])
def test_lu(tool, dtype, rows, columns):
    a = matrix(dtype, rows, columns)
    size = min(rows, columns)
    lu, pivots, info = call(tool, "getrf", [shape_of(a), f"s32[{size}]", "s32[]"], a)
    order = np.arange(rows)
    for k, pivot in enumerate(pivots):
        order[[k, pivot - 1]] = order[[pivot - 1, k]]
    lower = np.tril(lu[:, :size], -1) + np.eye(rows, size)
    np.testing.assert_allclose(lower @ np.triu(lu[:size]), a[order], atol=BOUND[dtype])
    assert np.abs(lower).max() <= (1 if dtype != "c64" else 2 ** .5) + 1e-6 and info == 0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, columns", [(4, 4), (6, 3)])
def test_qr(tool, dtype, rows, columns):
    a = matrix(dtype, rows, columns)
    packed, taus = call(tool, "geqrf", [shape_of(a), shape_of(a[0, :columns])], a)
    q, = call(tool, "orgqr" if dtype != "c64" else "ungqr", [shape_of(a)], packed, taus)
    np.testing.assert_allclose(q @ np.triu(packed[:columns]), a, atol=BOUND[dtype])
    np.testing.assert_allclose(adjoint(q) @ q, np.eye(columns), atol=BOUND[dtype])
    plain = np.linalg.qr(a)[1]  # LAPACK's, whose signs are the same
    np.testing.assert_allclose(np.triu(packed[:columns]), plain, atol=BOUND[dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, columns, rank", [(4, 4, 4), (6, 3, 3), (3, 6, 3), (5, 4, 2)])
@pytest.mark.parametrize("mode", "AS")
def test_singular_values(tool, dtype, rows, columns, rank, mode):
    a = matrix(dtype, rows, rank) @ matrix(dtype, rank, columns, seed=1)
    size = min(rows, columns)
    wide = (rows, columns) if mode == "A" else (size, size)
    name, real = shape_of(a).split("[")[0], "f64" if dtype == "f64" else "f32"
    _, s, u, vt, info = call(
        tool, "gesdd", [shape_of(a), f"{real}[{size}]", f"{name}[{rows},{wide[0]}]",
                        f"{name}[{wide[1]},{columns}]", "s32[]"], a, mode=mode)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), atol=5 * BOUND[dtype])
    np.testing.assert_allclose(u[:, :size] * s @ vt[:size], a, atol=5 * BOUND[dtype])
    np.testing.assert_allclose(adjoint(u) @ u, np.eye(wide[0]), atol=BOUND[dtype])
    np.testing.assert_allclose(vt @ adjoint(vt), np.eye(wide[1]), atol=BOUND[dtype])
    assert info == 0


@pytest.mark.parametrize("dtype", TYPES)
def test_eigenvalues(tool, dtype):
    b = matrix(dtype, 3, 5, 5)
    a = b + adjoint(b)
    real = "f64" if dtype == "f64" else "f32"
    vectors, values, info = call(tool, "heevd" if dtype == "c64" else "syevd",
                                 [shape_of(a), f"{real}[3,5]", "s32[3]"], a, mode="V", uplo="L")
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=5 * BOUND[dtype])
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None, :], atol=10 * BOUND[dtype])
    np.testing.assert_array_equal(info, [0, 0, 0])


def results_of(array, form):
    """Shapes of results: "m" matrix, "v" vector of one less, "w" vector, "r" real "w", "q" real
    "v", "c" complex matrix, "i" whole number."""
    n, name = array.shape[-1], shape_of(array).split("[")[0]
    batch = "".join(f"{d}," for d in array.shape[:-2])
    real, other = ("f64", "c128") if name == "f64" else ("f32", "c64")
    shapes = {"m": f"{name}[{batch}{n},{n}]", "v": f"{name}[{batch}{n - 1}]", "i":
              f"s32[{batch[:-1]}]", "w": f"{name}[{batch}{n}]", "r": f"{real}[{batch}{n}]",
              "q": f"{real}[{batch}{n - 1}]", "c": f"{other}[{batch}{n},{n}]"}
    return [shapes[letter] for letter in form]


def product(packed, taus, size):
    """Q of reflectors that are below the subdiagonal."""
    q = np.eye(size, dtype=packed.dtype)
    for k, tau in enumerate(taus):
        v = np.zeros(size, packed.dtype)
        v[k + 1] = 1
        v[k + 2:] = packed[k + 2:, k]
        q = q @ (np.eye(size) - tau * np.outer(v, v.conj()))
    return q


ROTATIONS = np.kron(np.diag([1.0, 2.0, 3.0]), [[0.0, 1.0], [-1.0, 0.0]])
MATRICES = {"random": None, "rotations": ROTATIONS, "zero": np.zeros((6, 6)),
            "cycle": np.roll(np.eye(6), 1, axis=0), "jordan": np.diag([2.0] * 6) + np.eye(6, k=1),
            "symmetric": np.add.outer(np.arange(6.0), np.arange(6.0))}


def square(dtype, kind):
    return matrix(dtype, 6, 6) if kind == "random" else MATRICES[kind].astype(TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_hessenberg(tool, dtype):
    a = matrix(dtype, 2, 5, 5)
    packed, taus, info = call(tool, "gehrd", results_of(a, "mvi"), a)
    for one, p, t in zip(a, packed, taus):
        q = product(p, t, 5)
        np.testing.assert_allclose(q @ np.triu(p, -1) @ adjoint(q), one, atol=20 * BOUND[dtype])
    np.testing.assert_array_equal(info, [0, 0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("uplo", "LU")
def test_tridiagonal_form(tool, dtype, uplo):
    a = matrix(dtype, 5, 5)
    a = a + adjoint(a)
    given = np.tril(a) if uplo == "L" else np.triu(a)
    routine = "hetrd" if dtype == "c64" else "sytrd"
    packed, diagonal, beside, taus, _ = call(tool, routine, results_of(a, "mrqvi"), given,
                                             uplo=uplo)
    form = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    np.testing.assert_allclose(np.linalg.eigvalsh(form), np.linalg.eigvalsh(a),
                               atol=20 * BOUND[dtype])
    if uplo == "L":
        q = product(packed, taus, 5)
        np.testing.assert_allclose(q @ form @ adjoint(q), a, atol=20 * BOUND[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_qr_with_pivots(tool, dtype):
    a = matrix(dtype, 6, 4)
    first = np.array([0, 0, 0, 1], np.int32)
    for fixed in (0 * first, first):
        packed, order, taus = call(tool, "geqp3", [shape_of(a), "s32[4]", shape_of(a[0])], a, fixed)
        q, = call(tool, "orgqr" if dtype != "c64" else "ungqr", [shape_of(a)], packed, taus)
        np.testing.assert_allclose(q @ np.triu(packed[:4]), a[:, order - 1], atol=BOUND[dtype])
        sizes = np.abs(np.diag(packed))[fixed.sum():]
        assert (np.diff(sizes) <= 0).all() and (order[0] == 4 or not fixed.any())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", MATRICES)
def test_schur_form(tool, dtype, kind):
    a = square(dtype, kind)
    form = "mmwii" if dtype == "c64" else "mmwwii"
    t, z, *values, _, info = call(tool, "gees", results_of(a, form), a, mode="V", sort="N")
    assert info == 0
    np.testing.assert_allclose(z @ t @ adjoint(z), a, atol=50 * BOUND[dtype])
    np.testing.assert_allclose(adjoint(z) @ z, np.eye(6), atol=5 * BOUND[dtype])
    assert (np.tril(t, -2) == 0).all()
    below = np.diag(t, -1)
    assert dtype != "c64" or (below == 0).all()
    for k in np.flatnonzero(below):  # a pair: standard form
        assert t[k, k] == t[k + 1, k + 1] and t[k, k + 1] * t[k + 1, k] < 0
    found = values[0] if dtype == "c64" else values[0] + 1j * values[1]
    if kind == "random":
        np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(np.linalg.eigvals(a)),
                                   atol=50 * BOUND[dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", sorted(set(MATRICES) - {"jordan"}))
def test_eigenvectors(tool, dtype, kind):
    a = square(dtype, kind)
    form = "wmmi" if dtype == "c64" else "wwcci"
    *values, left, right, info = call(tool, "geev", results_of(a, form), a, compute_left="V",
                                      compute_right="V")
    found = values[0] if dtype == "c64" else values[0] + 1j * values[1]
    assert info == 0
    np.testing.assert_allclose(a @ right, right * found, atol=100 * BOUND[dtype])
    np.testing.assert_allclose(adjoint(left) @ a, found[:, None] * adjoint(left),
                               atol=100 * BOUND[dtype])
    np.testing.assert_allclose(np.linalg.norm(right, axis=0), 1, atol=5 * BOUND[dtype])
    if dtype != "c64":
        assert (right[:, values[1] == 0].imag == 0).all()


def test_a_routine_that_is_not_known_is_named(tool):
    tool.write("g.hlo", """HloModule g
ENTRY e { p = f32[4,4] parameter(0)
  ROOT r = (f32[4,4], f32[3], s32[]) custom-call(p), custom_call_target="lapack_sgebal_ffi" }""")
    message = tool.fails("compile", "g.hlo", "-o", "g.poplar_exec")
    assert "potrf, getrf, trsm, geqrf, orgqr, ungqr, gesdd, syevd, heevd" in message


@pytest.mark.parametrize("libraries", ["/nowhere/liblapack.so", "libm.so.6"])
def test_without_a_lapack_the_message_says_what_to_install(tool, libraries):
    tool.write("g.hlo", """HloModule g
ENTRY e { p = f32[4,4] parameter(0)
  ROOT r = (f32[4,4], f32[3], s32[]) custom-call(p), custom_call_target="lapack_sgehrd_ffi" }""")
    message = tool.fails("compile", "g.hlo", "-o", "g.poplar_exec", TREMULA_LAPACK=libraries)
    assert "no LAPACK with sgehrd" in message and "pip install scipy" in message
    assert "TREMULA_LAPACK" in message
    tool.ok("compile", "g.hlo", "-o", "g.poplar_exec")


def test_the_lapack_of_a_package_beside_tremula_is_found(tool):
    """As pip installs them: tremula/lib and numpy.libs in one folder."""
    library = pathlib.Path(built.program("tremula")).resolve().parents[1] / "lib/libtremula.so"
    folder = tool.folder / "packages/tremula/lib"
    folder.mkdir(parents=True)
    for name in (library.name, library.resolve().name, f"{library.name}.0"):
        if not (folder / name).exists():
            shutil.copy(library, folder / name)
    os.symlink(pathlib.Path(np.__file__).parent.parent / "numpy.libs",
               tool.folder / "packages/numpy.libs")
    tool.environment.update(TREMULA_LAPACK="", LD_LIBRARY_PATH=str(folder))
    test_lu(tool, "f64", 6, 3)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_tremula_computes_itself_needs_no_lapack(tool, dtype):
    tool.environment["TREMULA_LAPACK"] = "/nowhere"
    test_cholesky_and_triangular_systems(tool, dtype)
    test_qr(tool, dtype, 6, 3)
    test_eigenvalues(tool, dtype)


def test_solve_as_jax_writes_it(tool):
    a, b = matrix("f32", 4, 4), matrix("f32", 4, 5, seed=1)
    for version in ("011", "012"):
        tool.ok("compile", DATA / f"proto/solve_jax{version}.pb", "-o", "solve.poplar_exec")
        tool.ok("run", "solve.poplar_exec", "--input", f"0={tool.save('a.npy', a)}", "--input",
                f"1={tool.save('b.npy', b)}", "--output", version)
        result = tool.load(f"{version}/output0.npy")
        np.testing.assert_allclose(result, np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)
