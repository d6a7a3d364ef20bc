/* The phases of a plan, which other families use. */
#ifndef TREMULA_IPU_COSTS_LINEAR_H_
#define TREMULA_IPU_COSTS_LINEAR_H_

#include "ipu/plan/plan.h"
#include "ipu/tile/cost.h"

/* Plans a float matmul m x k by k x n, `batch` times side by side. The cost's arena owns the
 * plan. */
trm_status trm_tile_plan_matmul(const trm_tile_request *request, trm_tile_cost *cost, int64_t batch,
                                int64_t m, int64_t k, int64_t n, trm_linear_plan **out_plan,
                                trm_error *error);
/* Adds the phases of a plan, each `times` times as often; `name` is a prefix of their names. */
trm_status trm_tile_add_plan(const trm_tile_request *request, trm_tile_cost *cost,
                             const trm_linear_plan *plan, const char *name, int64_t times,
                             trm_error *error);
/* Adds triangular-solve to a cost that has begun. */
trm_status trm_tile_triangular_solve(const trm_tile_request *request, trm_tile_cost *cost,
                                     trm_error *error);

#endif /* TREMULA_IPU_COSTS_LINEAR_H_ */
