/* Owns: made-up data (--use_synthetic_data, --synthetic_data_categories, --null_data_feed): what a
 * program gets instead of data from the host. */
#ifndef TREMULA_TF_SYNTHETIC_H_
#define TREMULA_TF_SYNTHETIC_H_

#include "feeds.h"
#include "settings.h"

/* Fills an array by the initializer of --synthetic_data_initializer. "uniform" and "random": from 0
 * to 1 (integers: 0 or 1); "normal": of mean 0 and variance 1 (integers: rounded; unsigned ones
 * without their sign); a number: that; "": zeros. `stream` tells the arrays of a program apart: the
 * same one has the same values in every process. */
void trm_tf_synthetic_fill(void *data, const trm_tensor_info *info, const char *initializer,
                           uint64_t stream);

/* Arrays for `count` infos in one block, filled; free both with trm_free. NULL when memory has run
 * out. */
void **trm_tf_synthetic_create(const trm_tensor_info *const *infos, size_t count,
                               const char *initializer, void **out_block);

/* Makes the infeed give made-up elements, or the host's again, as the settings say. Called between
 * runs only. */
trm_status trm_tf_synthetic_feed(trm_tf_infeed *feed, trm_error *error);

#endif /* TREMULA_TF_SYNTHETIC_H_ */
