/* The functions of trm_poplar_api: trm_poplar_ and the member's name. Their failures, whose
 * messages go to a trm_poplar_error, which the headers throw. The macros use the local name
 * `error`. */
#ifndef TREMULA_POPLAR_API_H_
#define TREMULA_POPLAR_API_H_

#include "base/memory.h"
#include "tremula/poplar.h"
#include "tremula/tremula.h"

#define POPLAR_CALL(member, ...) int32_t trm_poplar_##member(__VA_ARGS__, trm_poplar_error *error);
#define POPLAR_PLAIN(result, member, ...) result trm_poplar_##member(__VA_ARGS__);
#include "tremula/poplar_api.def"

/* Writes a failure; returns `status`. */
trm_status trm_poplar_fail(trm_poplar_error *error, trm_status status, trm_poplar_error_kind kind,
                           const char *format, ...) __attribute__((format(printf, 4, 5), cold));
/* The failure of a function of Tremula; returns its status. */
trm_status trm_poplar_pass(trm_poplar_error *error, const trm_error *inner);

/* THROW(kind, ...): kind as in TRM_POPLAR_ERROR_kind; THROW_POPLAR is a plain poplar_error. */
#define THROW(kind, ...)                                                                      \
  return (trm_poplar_fail(error, TRM_INVALID_ARGUMENT, TRM_POPLAR_ERROR_##kind, __VA_ARGS__), \
          TRM_INVALID_ARGUMENT)
#define THROW_POPLAR(...)                                                              \
  return (trm_poplar_fail(error, TRM_INVALID_ARGUMENT, TRM_POPLAR_ERROR, __VA_ARGS__), \
          TRM_INVALID_ARGUMENT)
#define THROW_NO_MEMORY(what) return NO_MEMORY(what)
/* The failure as a value. */
#define NO_MEMORY(what)                                             \
  (trm_poplar_fail(error, TRM_RESOURCE_EXHAUSTED, TRM_POPLAR_ERROR, \
                   "out of memory while allocating %s", (what)),    \
   (trm_status)TRM_RESOURCE_EXHAUSTED)

#endif /* TREMULA_POPLAR_API_H_ */
