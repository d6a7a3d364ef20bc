/* Which layer an op belongs to, by its TensorFlow name (layers.c). */
#ifndef TREMULA_PROGRAM_LAYERS_H_
#define TREMULA_PROGRAM_LAYERS_H_

#include <stdbool.h>
#include <stddef.h>

/* Whether an op of that name computes gradients: "gradients/...", "gradient_tape/...". */
bool trm_program_is_gradient(const char *op_name);
/* The name of the op whose gradient it computes, in *out_length characters: "gradients/a/b_grad/C"
 * gives "a/b". Length 0 when the name does not say. */
const char *trm_program_forward_name(const char *op_name, size_t *out_length);
/* Its scope, in *out_length characters: "a" for "a/b" and for gradients of that; an op outside of
 * scopes is a layer of its own. */
const char *trm_program_layer_of(const char *op_name, size_t *out_length);

#endif /* TREMULA_PROGRAM_LAYERS_H_ */
