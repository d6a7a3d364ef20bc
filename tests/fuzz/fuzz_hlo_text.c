/* Fuzz target: HLO text. What is taken must print, and what is printed must be taken back. */
#include <stdlib.h>
#include <string.h>

#include "hlo/hlo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trm_module *module = NULL, *again = NULL;
  trm_error error;
  char *text = NULL, *second = NULL;
  if (trm_hlo_parse_text((const char *)data, size, &module, &error) != TRM_OK) return 0;
  (void)trm_module_verify(module, &error);
  if (trm_module_print(module, &text, &error) != TRM_OK) abort();
  if (trm_hlo_parse_text(text, strlen(text), &again, &error) != TRM_OK) abort();
  if (trm_module_print(again, &second, &error) != TRM_OK) abort();
  if (strcmp(text, second) != 0) abort();
  trm_free(text);
  trm_free(second);
  trm_module_free(module);
  trm_module_free(again);
  return 0;
}
