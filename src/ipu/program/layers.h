/* The layer of an op, from its TensorFlow name (layers.c). */
#ifndef TREMULA_IPU_PROGRAM_LAYERS_H_
#define TREMULA_IPU_PROGRAM_LAYERS_H_

#include <stdbool.h>
#include <stddef.h>

/* Whether an op with this name computes gradients: "gradients/...", "gradient_tape/...". */
bool trm_program_is_gradient(const char *op_name);
/* The name of the op whose gradient this op computes, in *out_length characters: "a/b" for
 * "gradients/a/b_grad/C". Length 0: the name does not say. */
const char *trm_program_forward_name(const char *op_name, size_t *out_length);
/* The scope of an op, in *out_length characters: "a" for "a/b" and for gradients of "a/b". An op
 * without a scope is a layer of its own. */
const char *trm_program_layer_of(const char *op_name, size_t *out_length);

#endif /* TREMULA_IPU_PROGRAM_LAYERS_H_ */
