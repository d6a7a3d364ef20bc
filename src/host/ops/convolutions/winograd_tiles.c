/* Owns: Winograd's transforms and products with AVX-512 and with AVX2. Both give the same bits. */
#include "host/ops/convolutions/winograd_tiles.h"

#include <string.h>

#include "host/ops/elementwise/vector.h"
#include "host/ops/transposes.h"

#if defined(__x86_64__)
/* What lies around an image. */
static const float zeros[TRM_WINOGRAD_MOST_CHANNELS];

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#define TARGETS "avx512f"
#include "host/ops/products/vector_words_avx512.inc.h"
#define ROWS 12 /* tiles of a panel */
#define UNIT 8  /* input channels of a gradient that are multiplied together */
#define PANELS 2

#include "host/ops/convolutions/winograd_tiles.inc.h"

#include "host/ops/convolutions/winograd_gradient.inc.h" /* uses the former */
static const trm_winograd_tiles tiles_avx512 = {
    ROWS, WIDE, PANELS, UNIT, transform_filters_avx512, run_task_avx512, run_gradient_avx512};

#include "host/ops/products/vector_words_end.inc.h"
#undef ROWS
#undef UNIT
#undef PANELS

/* ---- AVX2 ------------------------------------------------------------------------------------ */

#define TARGETS "avx2,fma"
#include "host/ops/products/vector_words_avx2.inc.h"
#define ROWS 6
#define UNIT 6
#define PANELS 4

#include "host/ops/convolutions/winograd_tiles.inc.h"

#include "host/ops/convolutions/winograd_gradient.inc.h" /* uses the former */
static const trm_winograd_tiles tiles_avx2 = {
    ROWS, WIDE, PANELS, UNIT, transform_filters_avx2, run_task_avx2, run_gradient_avx2};

const trm_winograd_tiles *trm_winograd_tiles_get(void) {
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx512") == 0) return &tiles_avx512;
  return strcmp(name, "avx2") == 0 ? &tiles_avx2 : NULL;
}

#else

const trm_winograd_tiles *trm_winograd_tiles_get(void) { return NULL; }

#endif
