/* The lock files: one for each IPU in the user's folder for the inventory.
 *
 * The locks are open-file-description locks: the kernel drops them when the last descriptor of the
 * opening goes, and F_OFD_GETLK asks without taking one. */
#ifndef TREMULA_DEVICE_LOCKS_H_
#define TREMULA_DEVICE_LOCKS_H_

#include "device/inventory.h"

/* Opens the inventory's folder; makes it when `create`. Without `create`, *out_fd is -1 when it
 * does not exist. Close it with close(). */
trm_status trm_lock_folder_open(const trm_inventory *inventory, bool create, int *out_fd,
                                trm_error *error);

/* Whoever chooses IPUs holds this lock meanwhile, so that two who want overlapping groups do not
 * take them from each other piece by piece. Waits for others up to 10 seconds. Not inherited by
 * intent: trm_lock_release drops it although a fork may have copied the descriptor. */
trm_status trm_lock_selection(int folder, int *out_fd, trm_error *error);

/* What of an IPU's file is locked. Who attaches to a free IPU locks all of it; a reservation is a
 * lock of one range, and the process that it is for locks the other. Each range has the record of
 * who holds it. */
typedef enum trm_lock_range { TRM_LOCK_ALL, TRM_LOCK_USE, TRM_LOCK_RESERVATION } trm_lock_range;

/* Opens and locks an IPU's file. *out_fd is -1 when another has the lock. */
trm_status trm_lock_ipu(int folder, uint32_t ipu, trm_lock_range range, int *out_fd,
                        trm_error *error);
/* Writes down who attached; of the device only name, ids and reserved_for are read. */
trm_status trm_lock_write_record(int fd, trm_lock_range range, const trm_attachment *who,
                                 trm_error *error);

/* Asks who has an IPU, without taking anything. */
trm_status trm_lock_query(int folder, uint32_t ipu, trm_attachment *out_attachment,
                          trm_error *error);

/* Unlocks and closes, even if another process has a copy of the descriptor; -1 is allowed. */
void trm_lock_release(int fd);

#endif /* TREMULA_DEVICE_LOCKS_H_ */
