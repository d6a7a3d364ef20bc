/* What a program computes for the new values of inputs that stay on the IPU (state_updates.c). */
#ifndef TREMULA_IPU_PROGRAM_STATE_UPDATES_H_
#define TREMULA_IPU_PROGRAM_STATE_UPDATES_H_

#include "base/memory.h"
#include "ipu/program/program.h"

/* By instruction of the entry. */
typedef struct trm_state_updates {
  bool *is_data;   /* an input that a feed brings */
  bool *is_number; /* it is made of constants and of scalars that stay */
  bool *is_update; /* it leads to new values of inputs alone, elementwise and from the old ones, or
                      is a number that only such instructions read */
} trm_state_updates;

/* The instruction that makes the new value of an input; TRM_NO_INDEX: none that is a result of its
 * own. */
trm_index trm_state_new_value(const trm_module *module, const trm_alias *alias);

/* `module` is the program's or a changed copy of it. The arrays live in the arena. */
trm_status trm_state_updates_find(const trm_program *program, const trm_module *module,
                                  trm_arena *arena, trm_state_updates *out, trm_error *error);

#endif /* TREMULA_IPU_PROGRAM_STATE_UPDATES_H_ */
