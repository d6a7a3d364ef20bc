/* Owns: the launchers' environment variables. */
#include "base/place.h"

#include <stdlib.h>

/* The variables of a launcher: its ranks and sizes. NULL: it has none. */
typedef struct launcher {
  const char *name, *rank, *size, *local_rank, *local_size;
} launcher;

/* Slurm's variables of a step, because a batch script has SLURM_PROCID and is alone. PMIx tells the
 * size to MPI only; Slurm's variables are there beside it. */
static const launcher launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL},
    {"PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"},
};

static bool read_number(const char *name, uint32_t *out) {
  const char *text = name == NULL ? NULL : getenv(name);
  if (text == NULL || *text < '0' || *text > '9') return false;
  char *end = NULL;
  const unsigned long value = strtoul(text, &end, 10);
  if (*end != '\0' || value > 1u << 30) return false;
  *out = (uint32_t)value;
  return true;
}

void trm_place_read(trm_group_place *out_place, bool *out_knows_local) {
  *out_place = (trm_group_place){0, 1, 0, 1, ""};
  *out_knows_local = false;
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; ++i) {
    const launcher *one = &launchers[i];
    trm_group_place place = {0, 1, 0, 1, one->name};
    if (!read_number(one->rank, &place.rank) || !read_number(one->size, &place.size) ||
        place.rank >= place.size) {
      continue;
    }
    *out_knows_local = read_number(one->local_rank, &place.local_rank) &&
                       read_number(one->local_size, &place.local_size);
    *out_place = place;
    return;
  }
}
