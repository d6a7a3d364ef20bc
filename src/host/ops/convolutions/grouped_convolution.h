/* Convolutions of thin groups (4 or 8 channels each; 16 with AVX2) with kernels 3 wide, where
 * oneDNN reaches a twentieth to two thirds of the machine. AVX-512 or AVX2; others are left to
 * oneDNN. */
#ifndef TREMULA_HOST_OPS_CONVOLUTIONS_GROUPED_CONVOLUTION_H_
#define TREMULA_HOST_OPS_CONVOLUTIONS_GROUPED_CONVOLUTION_H_

#include <stdbool.h>
#include <stdint.h>

#define TRM_GROUPED_LANES 16

/* y[n, q, o] = sum over k and the input channels i of o's group of
 * x[n, q * stride + k * dilation - pad, i] * w[o, i, k]; index 0 is rows, 1 columns. Activations
 * are dense with channels last; as many output as input channels. */
typedef struct trm_grouped_convolution {
  int64_t batch, channels, group; /* group: channels of one group */
  int64_t x_size[2], y_size[2], k_size[2], stride[2], dilation[2], pad[2];
  bool is_half; /* forward: x and y are halves, else floats */
} trm_grouped_convolution;

/* Whether this CPU and these sizes are served. */
bool trm_grouped_convolution_serves(const trm_grouped_convolution *c);

/* Weights are packed as [channels / 16][row][column][input channel of the group][16 output
 * channels]. `data` is a trm_grouped_convolution; the functions are steps of a oneDNN program. */
void trm_grouped_convolution_forward(const void *data, const void *x, const void *w, void *y);
/* `dw` has room for that many packed arrays of weights; the gradient is the first. */
void trm_grouped_convolution_backward_weights(const void *data, const void *x, const void *dy,
                                              void *dw);

int64_t trm_grouped_convolution_partial_sums(const trm_grouped_convolution *c);

#endif /* TREMULA_HOST_OPS_CONVOLUTIONS_GROUPED_CONVOLUTION_H_ */
