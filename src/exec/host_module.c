/* Owns: the module that the host's plan is made from, where it is not the executable's own.
 *
 * The passes cut long elementwise chains, as the estimate's figures for an IPU have it. Between the
 * parts whole arrays go through the host's memory. So where a chain was cut, the plan is made from
 * a copy of the module whose fusions are made anew, with a wider limit. */
#include "exec/executable.h"
#include "passes/pass.h"

trm_status trm_executable_host_module(const trm_module *module, trm_module **out_module,
                                      trm_error *error) {
  *out_module = NULL;
  if (!trm_fusions_were_cut(module)) return TRM_OK;
  trm_module *copy;
  TRY(trm_module_clone(module, &copy, error));
  copy->half_overflow = module->half_overflow;
  trm_status status = trm_pass_inline(copy, error);
  if (status == TRM_OK) status = trm_pass_simplify_tuples(copy, error);
  if (status == TRM_OK) status = trm_pass_common_subexpressions(copy, error);
  if (status == TRM_OK) status = trm_pass_fuse_widely(copy, error);
  if (status == TRM_OK) *out_module = copy;
  else trm_module_free(copy);
  return status;
}
