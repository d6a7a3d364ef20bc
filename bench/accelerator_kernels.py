#!/usr/bin/env python3
"""What an NVIDIA GPU would run, on a machine without one: XLA compiles our regions and JAX's own
modules of the league's rows for an H100, and this counts the kernels of both.

    PYTHON bench/accelerator_kernels.py PLUGIN [ROW...]

PYTHON is one with jax[cuda12] and without a GPU's driver; PLUGIN a PJRT plugin that this machine
can run, such as the CPU's, for which the regions are cut; `make bench-league` has made
.venv-bench-jax, whose JAX traces the rows. A GPU's driver would choose other algorithms of cuDNN
than the compiler does here, and calls of cuBLAS in place of some fused products.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEER = ROOT / "bench/comparison/league/peer.py"
ROWS = ["resnext", "resnext-f16", "resnet-training", "bert", "lstm", "lstm-training", "mlp"]
DUMPS = "*.before_optimizations.hlo.pb"
# What XLA's compiler asks of a device (stream_executor/device_description.proto).
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  threads_per_core_limit: 2048
  shared_memory_per_block: 49152  shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448  core_count: 132  fpus_per_core: 128
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000  l2_cache_size: 52428800  clock_rate_ghz: 1.98
  device_memory_size: 84942979072  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 1 patch: 1 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
# Without a device all products are fusions.
KERNELS = {"fusions": "fusion", "copies": "copy", "convolutions": "custom-call", "loops": "while"}


def dumped(peer, row, **environment):
    """The largest module that a peer gives XLA for the row, as an HloModuleProto."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_proto"
        command = [ROOT / ".venv-bench-jax/bin/python", PEER, peer, row, "2"]
        done = subprocess.run(command, env={**os.environ, **environment, "XLA_FLAGS": flags},
                              input="", text=True, capture_output=True, check=False)
        if "error" in done.stdout or done.returncode != 0:
            sys.exit(f"{row} by {peer}: {done.stdout}{done.stderr[-500:]}")
        # An HloProto that holds nothing but its field 1, the module.
        data = max((path.read_bytes() for path in pathlib.Path(folder).glob(DUMPS)), key=len)
    at = 1
    while data[at] & 128:
        at += 1
    return data[at + 1:]


def compiler():
    """A function that compiles an HloModuleProto for the device; its result is HLO text."""
    os.environ.update(JAX_PLATFORMS="cpu", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1")
    import numpy as np
    from jax._src.interpreters import mlir
    from jax.experimental import topologies
    from jaxlib import _jax, xla_client
    from jaxlib.mlir import ir
    device = topologies.get_topology_desc(platform="cuda", topology="1x1x1",
                                          target_config=H100).devices[0]
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[0]]))

    def compiled(module):
        with mlir.make_ir_context() as context:
            program = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(module), context)
        executable = device.client.compile(program, _jax.DeviceList((device,)), options)
        return executable.hlo_modules()[0].to_string()
    return compiled


def counted(text):
    """How many kernels of each kind. What is not fused stands outside of fused computations."""
    parts = re.split(r"\n(?=(?:ENTRY )?%\S+ \()", text)
    fused = set(re.findall(r"fusion\(.*calls=(%[\w.-]+)", text))
    found = collections.Counter()
    for part in parts[1:]:
        if part.removeprefix("ENTRY ").split(" ", 1)[0] not in fused:
            found.update(re.findall(r" = (?:\(.*?\)|\S+) ([a-z-]+)\(", part))
    return [found[kind] for kind in KERNELS.values()]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    plugin, *names = sys.argv[1:]
    compiled = compiler()
    print("| row | " + " | ".join(f"{kind}: ours; JAX's" for kind in KERNELS) + " |")
    print("|---|" + "---|" * len(KERNELS))
    for row in names or ROWS:
        ours = counted(compiled(dumped("tremula", row, TREMULA_ACCELERATOR=plugin)))
        theirs = counted(compiled(dumped("jax", row)))
        cells = (f"{mine}; {other}" for mine, other in zip(ours, theirs))
        print(f"| {row} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
