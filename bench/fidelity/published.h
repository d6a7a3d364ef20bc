/* Published measurements that the model is compared with (docs/fidelity.md says what each is). */
#ifndef TREMULA_BENCH_FIDELITY_PUBLISHED_H_
#define TREMULA_BENCH_FIDELITY_PUBLISHED_H_

#include <stddef.h>

#include "ipu/plan/plan.h"
#include "tremula/program.h"

/* C[m,n] = A[m,k] B[k,n] with m = k, on a Bow IPU, digitised from a figure (within 4 %). */
typedef struct published_matmul {
  trm_dtype type;
  int m, n;
  double tflops;
} published_matmul;

static const published_matmul published_matmuls[] = {
    {TRM_F16, 1024, 4, 6.1},     {TRM_F16, 1024, 16, 20.3},    {TRM_F16, 1024, 64, 45.5},
    {TRM_F16, 1024, 256, 89.3},  {TRM_F16, 1024, 1024, 120},   {TRM_F16, 1024, 2048, 153},
    {TRM_F16, 1024, 4096, 180},  {TRM_F16, 1024, 8192, 206},   {TRM_F16, 1024, 16384, 223},
    {TRM_F16, 4096, 4, 18.5},    {TRM_F16, 4096, 16, 61.2},    {TRM_F16, 4096, 64, 130},
    {TRM_F16, 4096, 256, 175},   {TRM_F16, 4096, 2048, 223},   {TRM_F32, 1024, 4, 3.7},
    {TRM_F32, 1024, 8, 6.5},     {TRM_F32, 1024, 16, 10.9},    {TRM_F32, 1024, 32, 15.9},
    {TRM_F32, 1024, 64, 20.9},   {TRM_F32, 1024, 128, 28.8},   {TRM_F32, 1024, 256, 33.9},
    {TRM_F32, 1024, 512, 35.7},  {TRM_F32, 1024, 1024, 43.2},  {TRM_F32, 1024, 2048, 49.4},
    {TRM_F32, 1024, 4096, 55.0}, {TRM_F32, 1024, 16384, 58.0}, {TRM_F32, 4096, 4, 7.0},
    {TRM_F32, 4096, 16, 22.0},   {TRM_F32, 4096, 64, 40.9},    {TRM_F32, 4096, 256, 52.1},
    {TRM_F32, 4096, 1024, 55.0}, {TRM_F32, 4096, 4096, 58.0},
};
enum { NUM_PUBLISHED_MATMULS = sizeof published_matmuls / sizeof *published_matmuls };

/* The clock with which rates become cycles: 2 m k n / (TFLOP/s) x 1.85 GHz. It is not stated by
 * the source; a Bow's fits its highest rates. */
static const double published_clock = 1.85e9;

static inline double published_cycles(const published_matmul *p) {
  return 2.0 * p->m * p->m * p->n / (p->tflops * 1e12) * published_clock;
}

/* Graphcore's IPU Model of an MK2 (Poplar 2.0): m4 = m1 m2, m5 = m4 m3, all f32. The program only
 * reads m1, m2 and m3, so they are always live, as weights are. */
static const char published_program[] =
    "HloModule row_a, frontend_attributes={tremula_side_table="
    "\"{\\\"inputs\\\":[\\\"m1\\\",\\\"m2\\\",\\\"m3\\\"],\\\"arguments\\\":0}\"}\n\n"
    "ENTRY e {\n"
    "  m1 = f32[800,500] parameter(0)\n"
    "  m2 = f32[500,400] parameter(1)\n"
    "  m3 = f32[400,200] parameter(2)\n"
    "  m4 = f32[800,400] dot(m1, m2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT m5 = f32[800,200] dot(m4, m3), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "}\n";
static const struct {
  double cycles, convolve, reduce, memory_bytes, vertices, edges, tiles;
} published_model = {34655, 15200, 3500, 59894241, 16877, 77137, 1400};

/* GC2, a stencil's halo: 100 x 100 floats a tile, ten times; mean cycles of a tile. */
static const struct {
  double exchange, sync;
  int iterations, bytes, messages;
} published_halo = {5682, 3328, 10, 4 * 100 * 4, 4};

/* GC2: 3 x 3 Gaussian blurs of halves as convolutions of one channel, cycles of a turn (at 1.6 GHz
 * where microseconds are published), by availableMemoryProportion. With little memory the original
 * takes plans that are far slower. */
typedef struct published_blur {
  int rows, columns;
  double proportion, cycles;
  bool is_short; /* of memory */
} published_blur;
static const published_blur published_blurs[] = {
    {302, 499, 0.6, 4850, false},     {768, 1024, 0.1, 361600, true},
    {768, 1024, 0.2, 13280, false},   {768, 1024, 0.6, 13280, false},
    {1122, 2200, 0.1, 1148800, true}, {1122, 2200, 0.2, 1096000, true},
    {1122, 2200, 0.4, 35840, false},  {1122, 2200, 0.6, 35840, false}};
enum { NUM_PUBLISHED_BLURS = sizeof published_blurs / sizeof *published_blurs };

static inline trm_conv_params published_blur_params(const published_blur *blur) {
  const trm_conv_dim window = {.kernel = 3,
                               .stride = 1,
                               .pad_low = 1,
                               .pad_high = 1,
                               .input_dilation = 1,
                               .kernel_dilation = 1};
  trm_conv_params params = {.input_type = TRM_F16,
                            .output_type = TRM_F16,
                            .groups = 1,
                            .batch = 1,
                            .in_channels = 1,
                            .out_channels = 1,
                            .num_dims = 2,
                            .dims = {window, window}};
  params.dims[0].input = blur->rows;
  params.dims[1].input = blur->columns;
  return params;
}

/* ---- Checks: nothing was fitted to these but what always_live.c says of the first ------------ */

/* Memory by category that Graphcore's guide to the IPU for TensorFlow prints ("Reading the Poplar
 * textual summary report") of its first example, two additions of pairs of floats, on a GC2, with
 * the steps that TensorFlow adds (framework_steps). Vertex code, exchange code and vertices are
 * nearly all of those steps, and are left out. Integers here, since floats that nothing multiplies
 * are taken for weights, which are not sent for each run. `allowed`: share. */
static const char published_small_program[] = "HloModule small\n\n"
                                              "ENTRY e {\n"
                                              "  pa = s32[2] parameter(0)\n"
                                              "  pb = s32[2] parameter(1)\n"
                                              "  pc = s32[2] parameter(2)\n"
                                              "  o1 = s32[2] add(pa, pb)\n"
                                              "  o2 = s32[2] add(pa, pc)\n"
                                              "  ROOT out = s32[2] add(o1, o2)\n"
                                              "}\n";
typedef struct published_category {
  trm_memory_category category;
  double bytes, allowed;
} published_category;

static const published_category published_small[] = {
    {TRM_CATEGORY_STACK, 3852288, 0}, /* 3168 on each of 1216 tiles */
    {TRM_CATEGORY_CONTROL_CODE, 851272, 0.15},
    {TRM_CATEGORY_HOST_EXCHANGE_CODE, 351328, 0.15},
    {TRM_CATEGORY_HOST_EXCHANGE_PACKET_HEADER, 10512, 0.15},
};
enum { NUM_PUBLISHED_CATEGORIES = sizeof published_small / sizeof *published_small };
static const double published_small_total = 5355604; /* excluding gaps */

/* An MK2, Poplar 3.0: a dense layer of 4096 to 1024 with 16 items, taken as floats. Published in
 * KiB and MiB. */
static const char published_dense_program[] =
    "HloModule dense\n\nENTRY e {\n"
    "  x = f32[16,4096] parameter(0)\n"
    "  w = f32[4096,1024] parameter(1)\n"
    "  b = f32[1024] parameter(2)\n"
    "  y = f32[16,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  rows = f32[16,1024] broadcast(b), dimensions={1}\n"
    "  ROOT z = f32[16,1024] add(y, rows)\n"
    "}\n";
static const published_category published_dense[] = {
    {TRM_CATEGORY_VERTEX_CODE, 3.4 * 1024 * 1024, 0.25},
    {TRM_CATEGORY_VERTEX_INSTANCE_STATE, 178 * 1024, 0.25},
    {TRM_CATEGORY_INTERNAL_EXCHANGE_CODE, 360 * 1024, 0.25},
};
enum { NUM_DENSE_CATEGORIES = sizeof published_dense / sizeof *published_dense };
static const double published_dense_temporary = 9.8 * 1024 * 1024; /* not always live */

/* Square matmuls, rates of whole programs, as we recollect them from the papers: those could not
 * be opened again here. GC2: Jia et al., "Dissecting the Graphcore IPU", 2019; MK2: Shekofteh et
 * al., "On Performance Analysis of Graphcore IPUs", 2023. */
typedef struct published_square {
  const char *target;
  trm_dtype type;
  int size;
  double tflops;
} published_square;

static const published_square published_squares[] = {
    {"mk1", TRM_F32, 2944, 18.9}, {"mk1", TRM_F16, 2944, 58.9}, {"mk2", TRM_F32, 3584, 44.2}};
enum { NUM_PUBLISHED_SQUARES = sizeof published_squares / sizeof *published_squares };

/* Products [m,m] x [m,n] that ran, and those behind the ends of the curves above: of (B) one that
 * is taken as out of memory, of the squares of a GC2 the next multiple of 128. The program of (B)
 * has host writes of both operands and a host read of the result, which are always live, and in
 * float where the product is of halves; casts follow and precede (sparsity-benchmarks,
 * ipu/matmul_bench.cpp). A cast of floats to floats is a copy, so the result that the host reads is
 * not the product's. */
typedef struct published_large {
  const char *target;
  trm_dtype type;
  int m, n;
  bool fits;
} published_large;

static const published_large published_larges[] = {
    {"bow", TRM_F16, 4096, 2048, true}, {"bow", TRM_F32, 1024, 16384, true},
    {"bow", TRM_F32, 4096, 4096, true}, {"bow", TRM_F32, 2048, 16384, false},
    {"mk2", TRM_F32, 3584, 3584, true}, {"mk1", TRM_F16, 2944, 2944, true},
    {"mk1", TRM_F32, 2944, 2944, true}, {"mk1", TRM_F32, 3072, 3072, false},
};
enum { NUM_PUBLISHED_LARGES = sizeof published_larges / sizeof *published_larges };

#endif /* TREMULA_BENCH_FIDELITY_PUBLISHED_H_ */
