"""JAX on Tremula: a classifier is trained, and planned for an IPU.

    pip install 'jax[cpu]'
    python examples/jax_training.py
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import tremula.jax

CLASSES, FEATURES, BATCH = 4, 16, 64


def make_data(count, seed):
    """Points around a centre of each class."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((CLASSES, FEATURES))
    labels = random.integers(0, CLASSES, count)
    points = centres[labels] + random.standard_normal((count, FEATURES))
    return points.astype(np.float32), labels.astype(np.int32)


def initialise(key):
    keys = jax.random.split(key)
    return {
        "hidden": {"w": jax.random.normal(keys[0], (FEATURES, 128)) / 4, "b": jnp.zeros(128)},
        "classes": {"w": jax.random.normal(keys[1], (128, CLASSES)) / 12, "b": jnp.zeros(CLASSES)},
    }


def apply(params, points):
    with jax.named_scope("hidden"):
        x = jax.nn.gelu(points @ params["hidden"]["w"] + params["hidden"]["b"])
    with jax.named_scope("classes"):
        return x @ params["classes"]["w"] + params["classes"]["b"]


def loss(params, points, labels):
    chances = jax.nn.log_softmax(apply(params, points))
    return -jnp.take_along_axis(chances, labels[:, None], 1).mean()


@functools.partial(tremula.jax.jit, donate_argnums=0, static_argnames="rate")
def step(params, points, labels, rate):
    value, gradients = jax.value_and_grad(loss)(params, points, labels)
    return jax.tree_util.tree_map(lambda w, g: w - rate * g, params, gradients), value


@tremula.jax.jit
def accuracy(params, points, labels):
    return (apply(params, points).argmax(1) == labels).mean()


def main():
    points, labels = make_data(64 * BATCH, seed=1)
    test = make_data(1000, seed=2)
    params, value = tremula.jax.jit(initialise)(jax.random.PRNGKey(0)), 0.0
    print(f"before: accuracy {accuracy(params, *test):.2f}")
    for epoch in range(3):
        for start in range(0, len(points), BATCH):
            batch = points[start:start + BATCH], labels[start:start + BATCH]
            params, value = step(params, *batch, rate=0.1)
        print(f"epoch {epoch + 1}: loss {value:.2f}, accuracy {accuracy(params, *test):.2f}")

    compiled = tremula.jax.compile(step, params, points[:BATCH], labels[:BATCH], rate=0.1)
    print(compiled.plan(target="mk2"))


if __name__ == "__main__":
    main()
