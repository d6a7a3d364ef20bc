/* Owns: made-up data that replaces data from the host (--use_synthetic_data,
 * --synthetic_data_categories, --null_data_feed). */
#ifndef TREMULA_TF_SYNTHETIC_H_
#define TREMULA_TF_SYNTHETIC_H_

#include "feeds.h"
#include "settings.h"

/* Fills an array by the initializer of --synthetic_data_initializer. "uniform" and "random": from 0
 * to 1 (integers: 0 or 1); "normal": mean 0 and variance 1 (integers: rounded; unsigned: absolute
 * values); a number: that number; "": zeros. `stream` distinguishes arrays: equal streams have
 * equal values in every process. */
void trm_tf_synthetic_fill(void *data, const trm_tensor_info *info, const char *initializer,
                           uint64_t stream);

/* Makes filled arrays for `count` infos, in one block; free both with trm_free. NULL: out of
 * memory. */
void **trm_tf_synthetic_create(const trm_tensor_info *const *infos, size_t count,
                               const char *initializer, void **out_block);

/* Switches the infeed to made-up elements, or back to the host's, as the settings say. Call between
 * runs only. */
trm_status trm_tf_synthetic_feed(trm_tf_infeed *feed, trm_error *error);

#endif /* TREMULA_TF_SYNTHETIC_H_ */
