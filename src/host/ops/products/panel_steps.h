/* Products of panels (panel_product.h) as operations of a sequence. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_PANEL_STEPS_H_
#define TREMULA_HOST_OPS_PRODUCTS_PANEL_STEPS_H_

#include "host/ops/products/panel_product.h"
#include "host/ops/products/sequence.h"

/* Adds the product of `lhs` and `rhs`. keeps_rhs: panels of `rhs`, which depends on operand 1
 * alone, are packed when that operand's contents change. Ends the packing of operand 1, which the
 * caller may have begun. */
trm_status trm_sequence_add_panel_product(trm_sequence *sequence, trm_arena *arena,
                                          const trm_panel_product *product, trm_place lhs,
                                          trm_place rhs, trm_place out, bool keeps_rhs,
                                          trm_error *error);

#endif /* TREMULA_HOST_OPS_PRODUCTS_PANEL_STEPS_H_ */
