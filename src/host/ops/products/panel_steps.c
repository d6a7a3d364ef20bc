/* Owns: products of panels in sequences, for dots and convolutions of one element. */
#include "host/ops/products/panel_steps.h"

trm_status trm_sequence_add_panel_product(trm_sequence *sequence, trm_arena *arena,
                                          const trm_panel_product *product, trm_place lhs,
                                          trm_place rhs, trm_place out, bool keeps_rhs,
                                          trm_error *error) {
  const trm_panel_product *own = trm_arena_copy(arena, product, sizeof *product);
  CHECK_MEMORY(own, "a matrix product");
  if (!keeps_rhs) {
    return trm_sequence_add_worker(sequence, trm_panel_product_run, own, lhs, rhs, out,
                                   trm_panel_product_scratch_bytes(own), error);
  }
  const trm_place packed = trm_sequence_persistent(sequence, trm_panel_product_packed_bytes(own));
  trm_sequence_pack_begin(sequence, 1);
  TRY(trm_sequence_add_function(sequence, trm_panel_product_pack, own, rhs, rhs, packed, error));
  trm_sequence_pack_end(sequence);
  return trm_sequence_add_function(sequence, trm_panel_product_run_packed, own, lhs, packed, out,
                                   error);
}
