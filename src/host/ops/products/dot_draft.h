/* A dot while it is decided who computes it and its steps are built, for the table of ways
 * (dot_ways.c) and the files of the ways. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_DOT_DRAFT_H_
#define TREMULA_HOST_OPS_PRODUCTS_DOT_DRAFT_H_

#include "host/ops/products/dot_problem.h"
#include "host/ops/products/half_tiles.h"
#include "host/ops/products/matrix_vector.h"
#include "host/ops/products/onednn_steps.h"
#include "host/ops/products/panel_product.h"

/* Whether a product has the same bits with another number of threads. */
typedef enum trm_dot_bits { TRM_BITS_UNKNOWN, TRM_BITS_SAME, TRM_BITS_DIFFER } trm_dot_bits;

typedef struct trm_dot_draft {
  trm_sequence *sequence;
  const trm_kernel_request *request;
  trm_dot_problem p; /* its contracted dimensions are in the order that copies less */
  trm_dot_matrix matrices[2];
  int64_t rows, columns, inner; /* inner counts pieces, once they are cut */
  trm_half_products products;
  bool packs_floats; /* the right side is packed when its contents change */
  trm_place places[2], result;
  /* What the ways leave for each other and for the kernel. */
  trm_half_tiles tiles;
  trm_matrix_vector vector;
  int matrix; /* the side of the vector's product that is no vector */
  trm_panel_product panels;
  bool is_for_sgemm; /* oneDNN has no other kernel, or one that cuts sums by threads */
  trm_dot_bits bits;
} trm_dot_draft;

/* A way to compute dots. */
typedef struct trm_dot_way {
  const char *name; /* the first word of the kernel's name */
  int cost;         /* its usual time where it serves, in percent of oneDNN's */
  bool keeps_right; /* it has a version that keeps the right side packed */
  /* Whether it computes the dot; it may plan it in the draft. */
  bool (*serves)(trm_dot_draft *draft);
  /* Adds the steps. TRM_UNIMPLEMENTED, before it has added any: the next way. */
  trm_status (*add)(trm_dot_draft *draft, trm_error *error);
  trm_kernel_create_fn create; /* instead of steps: a kernel of its own */
} trm_dot_way;

/* By cost, the least first. The first one that serves a dot computes it. */
extern const trm_dot_way trm_dot_ways[];
extern const size_t trm_num_dot_ways;

/* Plans the matrices of the operands, and how halves are multiplied. */
void trm_dot_plan(trm_dot_draft *draft);
double trm_dot_operations(const trm_dot_draft *draft);
/* In a loop, the weights of a product are often those of the last iteration. */
bool trm_dot_may_pack_floats(const trm_kernel_request *request, const trm_dot_problem *p);
/* Whether to keep the converted operand between runs. */
bool trm_dot_is_kept(const trm_dot_draft *draft, int side);
/* Sets *tiles to the product on AMX tiles; false if an operand must be copied first. */
bool trm_dot_plan_tiles(const trm_dot_draft *draft, trm_half_tiles *tiles);

/* Widens and copies an operand, or both, to matrices of floats. */
trm_status trm_dot_add_float_operand(trm_dot_draft *draft, int side, trm_error *error);
trm_status trm_dot_add_float_operands(trm_dot_draft *draft, trm_error *error);
/* Sets draft->result to where floats are written, and rounds them to the dot's type there. */
void trm_dot_open_result(trm_dot_draft *draft);
trm_status trm_dot_close_result(trm_dot_draft *draft, trm_error *error);

/* The rows of the table that have files of their own: oneDNN (onednn_dot.c) and its sgemm
 * (sgemm_dot.c). */
bool trm_onednn_dot_serves(trm_dot_draft *draft);
trm_status trm_onednn_dot_add(trm_dot_draft *draft, trm_error *error);
bool trm_sgemm_dot_serves(trm_dot_draft *draft);
trm_status trm_sgemm_dot_add(trm_dot_draft *draft, trm_error *error);

#endif /* TREMULA_HOST_OPS_PRODUCTS_DOT_DRAFT_H_ */
