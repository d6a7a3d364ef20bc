"""Writes the HloModuleProtos of this folder that JAX makes, with the one it runs under:

    python make_jax.py        # once with each of 0.10, 0.11 and 0.12"""
import os

import jax
import jax.numpy as jnp

jax.config.update('jax_hlo_source_file_canonicalization_regex', '.*/')
VERSION = '0%02d' % int(jax.__version__.split('.')[1])
HERE = os.path.dirname(os.path.abspath(__file__))
A = jnp.ones((4, 5))


def dump(name, f, *args):
  proto = jax.jit(f).lower(*args).compiler_ir('hlo').as_serialized_hlo_module_proto()
  with open(os.path.join(HERE, f'{name}_jax{VERSION}.pb'), 'wb') as out:
    out.write(proto)


dump('sort', lambda x, y: jax.lax.sort((x, y), num_keys=2), A, A.astype(jnp.int32))
dump('conv', lambda x, y: jax.lax.conv(x[None, None], y[None, None], (1, 1), 'SAME'), A, A)
dump('solve', jnp.linalg.solve, jnp.eye(4), A)
dump('topk', lambda x: jax.lax.top_k(x, 2), A)
