"""Replicas take turns on the devices that are named."""

import pytest

from test_accelerator import plugin, run

PROGRAM = """
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
        sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
        ENTRY e { w = f32[128,128] parameter(0)  id = u32[] replica-id()
          f = f32[] convert(id)  b = f32[128,128] broadcast(f), dimensions={}
          x = f32[128,128] add(w, b)
          d = f32[128,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          h = f32[128,128] tanh(d)
          g = f32[128,128] all-reduce(h), replica_groups={}, to_apply=sum
          ROOT n = f32[128,128] dot(g, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }''')
    w = np.random.default_rng(1).normal(size=(128, 128)).astype(np.float32)
    import ctypes
    library = core.library()
    executable = core.compile(module)
    e = core.Engine(executable)
    handle = ctypes.c_void_p()
    library.trm_engine_create_replicated.argtypes = [ctypes.c_void_p, ctypes.c_uint32,
                                                     ctypes.c_void_p, ctypes.c_void_p]
    library.trm_engine_output.restype = ctypes.c_void_p
    library.trm_engine_output.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t]
    error = ctypes.create_string_buffer(8192)
    assert library.trm_engine_create_replicated(executable._handle, 4, ctypes.byref(handle),
                                                error) == 0
    e._handle, own = handle, e._handle
    for turn in range(2):
        print("SUM", float(np.abs(e.run([w])[0]).sum()))
    for r in range(1, 4):
        place = library.trm_engine_output(handle, r, 0)
        values = np.ctypeslib.as_array((ctypes.c_float * (128 * 128)).from_address(place))
        print("SUM", float(np.abs(values).sum()))
"""


@pytest.mark.parametrize("devices", ["0", "1", "0,1", "1,0,1"])
def test_replicas(devices):
    """Four replicas, with a sum over all between two regions; each has the CPU's result."""
    sums = [[float(line.split()[1]) for line in done.stdout.splitlines()] for done in (
        run(PROGRAM), run(PROGRAM, f"{plugin()}:{devices}",
                          XLA_FLAGS="--xla_force_host_platform_device_count=2"))]
    assert len(sums[0]) == 5 and len(set(sums[0])) == 4
    assert sums[1] == pytest.approx(sums[0], rel=1e-5)
