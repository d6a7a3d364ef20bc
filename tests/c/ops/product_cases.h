/* The products and convolutions that the benchmarks measure and that test_ways.c pins: RNN cells,
 * dense layers and their gradients, attention; ResNet-50, ResNeXt-50 and -101. */
#ifndef TREMULA_TESTS_OPS_PRODUCT_CASES_H_
#define TREMULA_TESTS_OPS_PRODUCT_CASES_H_

#include "linear_case.h"

static const dot_case product_cases[] = {
    {"lstm cell 1x64x256", 2, 2, {1, 64}, {64, 256}, "", "", "1", "0"},
    {"lstm cell 32x64x256", 2, 2, {32, 64}, {64, 256}, "", "", "1", "0"},
    {"lstm data gradient 1", 2, 2, {1, 256}, {64, 256}, "", "", "1", "1"},
    {"lstm data gradient 32", 2, 2, {32, 256}, {64, 256}, "", "", "1", "1"},
    {"lstm weight gradient 1", 2, 2, {1, 64}, {1, 256}, "", "", "0", "0"},
    {"lstm weight gradient 32", 2, 2, {32, 64}, {32, 256}, "", "", "0", "0"},
    {"tiny 4x4x4", 2, 2, {4, 4}, {4, 4}, "", "", "1", "0"},
    {"mlp 32x784x128", 2, 2, {32, 784}, {784, 128}, "", "", "1", "0"},
    {"mlp 32x784x256", 2, 2, {32, 784}, {784, 256}, "", "", "1", "0"},
    {"mlp weight gradient 784x32x256", 2, 2, {32, 784}, {32, 256}, "", "", "0", "0"},
    {"mlp 32x784x512", 2, 2, {32, 784}, {784, 512}, "", "", "1", "0"},
    {"mlp 32x512x512", 2, 2, {32, 512}, {512, 512}, "", "", "1", "0"},
    {"mlp data gradient 32x512x512", 2, 2, {32, 512}, {512, 512}, "", "", "1", "1"},
    {"mlp weight gradient 784x32x512", 2, 2, {32, 784}, {32, 512}, "", "", "0", "0"},
    {"policy 256x256x256", 2, 2, {256, 256}, {256, 256}, "", "", "1", "0"},
    {"policy data gradient 256", 2, 2, {256, 256}, {256, 256}, "", "", "1", "1"},
    {"policy weight gradient 256", 2, 2, {256, 256}, {256, 256}, "", "", "0", "0"},
    {"dense 100x768x768", 2, 2, {100, 768}, {768, 768}, "", "", "1", "0"},
    {"dense data gradient 100x768x768", 2, 2, {100, 768}, {768, 768}, "", "", "1", "1"},
    {"bert data gradient 768", 2, 2, {512, 768}, {768, 768}, "", "", "1", "1"},
    {"bert weight gradient 768", 2, 2, {512, 768}, {512, 768}, "", "", "0", "0"},
    {"mlp 32x128x10", 2, 2, {32, 128}, {128, 10}, "", "", "1", "0"},
    {"mlp data gradient 32x10x128", 2, 2, {32, 10}, {128, 10}, "", "", "1", "1"},
    {"mlp weight gradient 128x32x10", 2, 2, {32, 128}, {32, 10}, "", "", "0", "0"},
    {"fc 1x2048x1000", 2, 2, {1, 2048}, {2048, 1000}, "", "", "1", "0"},
    {"fc 8x2048x1000", 2, 2, {8, 2048}, {2048, 1000}, "", "", "1", "0"},
    {"fc data gradient 1", 2, 2, {1, 1000}, {2048, 1000}, "", "", "1", "1"},
    {"fc data gradient 8", 2, 2, {8, 1000}, {2048, 1000}, "", "", "1", "1"},
    {"fc weight gradient 8", 2, 2, {8, 2048}, {8, 1000}, "", "", "0", "0"},
    {"matrix and vector 1000x2048", 2, 1, {1000, 2048}, {2048}, "", "", "1", "0"},
    {"lstm 256 forward 32x256x1024", 2, 2, {32, 256}, {256, 1024}, "", "", "1", "0"},
    {"lstm 256 data gradient 32", 2, 2, {32, 1024}, {256, 1024}, "", "", "1", "1"},
    {"lstm 256 input 3200x256x1024", 2, 2, {3200, 256}, {256, 1024}, "", "", "1", "0"},
    {"bert 512x768x768", 2, 2, {512, 768}, {768, 768}, "", "", "1", "0"},
    {"bert 512x768x3072", 2, 2, {512, 768}, {768, 3072}, "", "", "1", "0"},
    {"bert 1024x768x3072", 2, 2, {1024, 768}, {768, 3072}, "", "", "1", "0"},
    {"bert 1024x3072x768", 2, 2, {1024, 3072}, {3072, 768}, "", "", "1", "0"},
    {"bert data gradient", 2, 2, {512, 3072}, {768, 3072}, "", "", "1", "1"},
    {"bert weight gradient", 2, 2, {512, 768}, {512, 3072}, "", "", "0", "0"},
    {"attention bhtd scores", 4, 4, {4, 12, 128, 64}, {4, 12, 128, 64}, "01", "01", "3", "3"},
    {"attention bhtd values", 4, 4, {4, 12, 128, 128}, {4, 12, 128, 64}, "01", "01", "3", "2"},
    {"attention bthd scores", 4, 4, {4, 128, 12, 64}, {4, 128, 12, 64}, "02", "02", "3", "3"},
    {"attention bthd values", 4, 4, {4, 12, 128, 128}, {4, 128, 12, 64}, "01", "02", "3", "1"},
    {"many 256 of 8x8x8", 3, 3, {256, 8, 8}, {256, 8, 8}, "0", "0", "2", "1"},
    {"bert weight gradient 1024", 2, 2, {1024, 768}, {1024, 3072}, "", "", "0", "0"},
    {"square 2048", 2, 2, {2048, 2048}, {2048, 2048}, "", "", "1", "0"},
    {"square 1024", 2, 2, {1024, 1024}, {1024, 1024}, "", "", "1", "0"},
};
#define NUM_PRODUCT_CASES (sizeof product_cases / sizeof *product_cases)

typedef struct layer_case_row {
  const char *name;
  int64_t size, in, out, kernel, stride, groups;
} layer_case_row;

static const layer_case_row layer_cases[] = {
    {"resnet.conv1 7x7/2", 224, 3, 64, 7, 2, 1},
    {"resnet.conv2 1x1", 56, 64, 64, 1, 1, 1},
    {"resnet.conv2 3x3", 56, 64, 64, 3, 1, 1},
    {"resnet.conv2 1x1 up", 56, 64, 256, 1, 1, 1},
    {"resnet.conv3 1x1/2", 56, 256, 512, 1, 2, 1},
    {"resnet.conv3 3x3/2", 56, 128, 128, 3, 2, 1},
    {"resnet.conv3 3x3", 28, 128, 128, 3, 1, 1},
    {"resnet.conv3 1x1 up", 28, 128, 512, 1, 1, 1},
    {"resnet.conv4 3x3", 14, 256, 256, 3, 1, 1},
    {"resnet.conv4 1x1 up", 14, 256, 1024, 1, 1, 1},
    {"resnet.conv5 3x3", 7, 512, 512, 3, 1, 1},
    {"resnet.conv5 1x1 up", 7, 512, 2048, 1, 1, 1},
    {"resnext.conv2 g32 4", 56, 128, 128, 3, 1, 32},
    {"resnext.conv3 g32 8/2", 56, 256, 256, 3, 2, 32},
    {"resnext.conv3 g32 8", 28, 256, 256, 3, 1, 32},
    {"resnext.conv4 g32 16", 14, 512, 512, 3, 1, 32},
    {"resnext.conv5 g32 32", 7, 1024, 1024, 3, 1, 32},
    {"mobilenet.depthwise 112", 112, 32, 32, 3, 1, 32},
    {"mobilenet.depthwise 14", 14, 512, 512, 3, 1, 512},
};
#define NUM_LAYER_CASES (sizeof layer_cases / sizeof *layer_cases)

/* A layer forward (form 0), its gradient by the data (1) or by the weights (2), as TensorFlow emits
 * them. */
static inline convolution_case layer_case(const layer_case_row *l, int64_t batch, int form) {
  const int64_t k = l->kernel, s = l->stride, g = l->groups;
  const int64_t out = (l->size + s - 1) / s;
  const int64_t pad = (out - 1) * s + k - l->size, low = pad > 0 ? pad / 2 : 0;
  const int64_t high = pad > 0 ? pad - low : 0;
  const int64_t data_high = l->size - ((out - 1) * s + 1) - (k - 1 - low) + k - 1;
  const trm_window_dimension wf = {0, s, low, high, 1, 1, false};
  const trm_window_dimension wd = {0, 1, k - 1 - low, data_high, 1, s, true};
  const trm_window_dimension ww = {0, 1, low, pad - low, s, 1, false};
  const convolution_case forms[3] = {
      {l->name,
       "b01f_01io->b01f",
       {batch, l->size, l->size, l->in},
       {k, k, l->in / g, l->out},
       {wf, wf},
       g,
       1},
      {l->name,
       "b01f_01oi->b01f",
       {batch, out, out, l->out},
       {k, k, l->in, l->out / g},
       {wd, wd},
       g,
       1},
      {l->name,
       "f01b_i01o->01bf",
       {batch, l->size, l->size, l->in},
       {batch, out, out, l->out},
       {ww, ww},
       1,
       g},
  };
  return forms[form];
}

#endif /* TREMULA_TESTS_OPS_PRODUCT_CASES_H_ */
