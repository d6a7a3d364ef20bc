/* The layer of an op, from its TensorFlow name (layers.c). */
#ifndef TREMULA_IPU_PROGRAM_LAYERS_H_
#define TREMULA_IPU_PROGRAM_LAYERS_H_

#include <stdbool.h>
#include <stddef.h>

#include "hlo/hlo.h"

/* Whether an op with this name computes gradients: "gradients/...", "gradient_tape/...". */
bool trm_program_is_gradient(const char *op_name);
/* The name of the op whose gradient this op computes, in *out_length characters: "a/b" for
 * "gradients/a/b_grad/C". Length 0: the name does not say. */
const char *trm_program_forward_name(const char *op_name, size_t *out_length);
/* The scope of an op, in *out_length characters: "a" for "a/b", "a/Tensordot/b" and for gradients
 * of "a/b". An op without a scope is a layer of its own. */
const char *trm_program_layer_of(const char *op_name, size_t *out_length);

/* Whether a layer of a program of JAX has a scope, and not only the functions that are called. */
bool trm_program_has_jax_scope(const char *layer, size_t length);
/* Whether a layer is `outer` or inside it, gradients included. JAX's names say it with or without
 * what they wrap a scope in: "jit(step)/transpose(jvp(layer))" is in "layer". */
bool trm_program_is_in_layer(const char *layer, size_t length, const char *outer);
/* Whether an instruction computes a part of one of some layers, or its gradients. `layers` ends
 * with NULL. An instruction without an op name is a layer of its own. */
bool trm_program_is_in_layers(const trm_instruction *instruction, const char *const *layers);

#endif /* TREMULA_IPU_PROGRAM_LAYERS_H_ */
