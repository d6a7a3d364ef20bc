/* Fuzz target: POPLAR_ENGINE_OPTIONS; what is accepted has a value for every option. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  setenv("POPLAR_LOG_LEVEL", "OFF", 0); /* unknown options are warnings */
  trm_arena arena = {0};
  trm_engine_options options;
  trm_engine_options_default(&options);
  if (trm_engine_options_add(&options, &arena, text, "fuzz", NULL) == TRM_OK) {
    for (int o = 0; o < TRM_NUM_ENGINE_OPTIONS; ++o) {
      if (options.texts[o] == NULL) abort();
    }
    (void)trm_engine_options_want_report(&options);
    if (options.run_count > 1000000000) abort();
  }
  trm_arena_free(&arena);
  free(text);
  return 0;
}
