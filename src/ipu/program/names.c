/* Owns: the names of the enums of tremula/program.h. */
#include "tremula/program.h"

const char *trm_program_step_type_name(trm_program_step_type type) {
  static const char *const names[] = {
#define TRM_PROGRAM_STEP(id, name) name,
#include "tremula/program_step.def"
#undef TRM_PROGRAM_STEP
  };
  return (unsigned)type < TRM_NUM_STEP_TYPES ? names[type] : NULL;
}

const char *trm_memory_category_name(trm_memory_category category) {
  static const char *const names[] = {
#define TRM_MEMORY_CATEGORY(id, name, always_live, help) name,
#include "tremula/memory_category.def"
#undef TRM_MEMORY_CATEGORY
  };
  return (unsigned)category < TRM_NUM_MEMORY_CATEGORIES ? names[category] : NULL;
}
