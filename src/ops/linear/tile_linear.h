/* What other families take of a convolution's cost: the phases of a plan. */
#ifndef TREMULA_OPS_LINEAR_TILE_LINEAR_H_
#define TREMULA_OPS_LINEAR_TILE_LINEAR_H_

#include "ops/linear/plan.h"
#include "tile/cost.h"

/* The plan of a float matmul m x k by k x n, `batch` times side by side; in the cost's arena. */
trm_status trm_tile_plan_matmul(const trm_tile_request *request, trm_tile_cost *cost, int64_t batch,
                                int64_t m, int64_t k, int64_t n, trm_linear_plan **out_plan,
                                trm_error *error);
/* The phases of a plan, all of them `times` times as often; `name` stands before their names. */
trm_status trm_tile_add_plan(const trm_tile_request *request, trm_tile_cost *cost,
                             const trm_linear_plan *plan, const char *name, int64_t times,
                             trm_error *error);
/* Of triangular-solve; the cost has begun. */
trm_status trm_tile_triangular_solve(const trm_tile_request *request, trm_tile_cost *cost,
                                     trm_error *error);

#endif /* TREMULA_OPS_LINEAR_TILE_LINEAR_H_ */
