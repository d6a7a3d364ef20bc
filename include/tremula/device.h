/* Virtual IPUs: which exist (an inventory), how they are numbered, and who has them (attaching).
 *
 * An inventory is data: a preset or a JSON file (docs/devices.md). It is chosen by the environment
 * variable TREMULA_INVENTORY, a preset's name or a path; `mk2-16` is the default. A process that
 * attaches to IPUs holds a lock on each until it releases them or ends, however it ends.
 *
 * Ids. The n IPUs of an inventory have the ids 0 to n - 1. Ids from n on name several IPUs at
 * once: the inventory lists its IPUs in routing order, and blocks of 2, then of 4, 8 and so on of
 * that list get the next ids (blocks that are not full get none); the last id is all IPUs. With 16
 * IPUs:
 *
 *     id      mk2-16                    c2-16 (routing order of an original server)
 *     16      4 5                       5 7
 *     17      6 7                       4 6
 *     18      0 1                       3 1
 *     19      2 3                       2 0
 *     20      12 13                     13 15
 *     21      14 15                     12 14
 *     22      8 9                       9 11
 *     23      10 11                     10 8
 *     24      4 5 6 7                   5 7 4 6
 *     25      0 1 2 3                   3 1 2 0
 *     26      12 13 14 15               13 15 12 14
 *     27      8 9 10 11                 9 11 10 8
 *     28      ids 24 and 25             ids 24 and 25
 *     29      ids 26 and 27             ids 26 and 27
 *     30      ids 28 and 29             ids 28 and 29
 *
 * Every function may be called from any thread.
 */
#ifndef TREMULA_DEVICE_H_
#define TREMULA_DEVICE_H_

#include "tremula/tremula.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The inventory ------------------------------------------------------------------------- */

#define TRM_MAX_IPUS 1024

typedef struct trm_inventory trm_inventory;

/* A virtual IPU. Strings are never NULL; they live as long as the inventory. */
typedef struct trm_ipu_info {
  uint32_t id;
  const char *architecture;   /* "ipu1", "ipu2" or "ipu21" */
  const char *board;          /* "C2", "C600", "M2000", "BOW-2000" */
  const char *host;           /* address of the IPU-Machine; "" for a card in the host */
  const char *pci;            /* PCI address of a card; "" for an IPU of an IPU-Machine */
  const char *serial;         /* of the board */
  const char *firmware;       /* version of the board's control unit */
  const char *software;       /* version of the IPU-Machine's software; "" for a card */
  const char *server_version; /* version of the IPU-Machine's server; "" for a card */
  const char *routing;        /* "DNC" */
  uint32_t number;            /* the number of the IPU on its board or IPU-Machine */
  uint32_t clock_mhz;
  uint32_t numa_node;
} trm_ipu_info;

/* Reads an inventory: the name of a preset, or the path of a JSON file (a name that contains '/' or
 * ends in ".json"). NULL: the inventory that TREMULA_INVENTORY names (mk2-16 if that is unset or
 * empty). Release it with trm_inventory_release. */
TRM_API trm_status trm_inventory_load(const char *name_or_path, trm_inventory **out_inventory,
                                      trm_error *error);
/* The same from JSON text of `size` bytes. `source` names the text in messages; it may be NULL. */
TRM_API trm_status trm_inventory_parse(const void *data, size_t size, const char *source,
                                       trm_inventory **out_inventory, trm_error *error);
/* Inventories are immutable and reference-counted. NULL may be released. */
TRM_API void trm_inventory_retain(trm_inventory *inventory);
TRM_API void trm_inventory_release(trm_inventory *inventory);

/* The i-th preset's name; NULL past the last. */
TRM_API const char *trm_inventory_preset(size_t i);

/* The inventory's name, and the name of its partition. They live as long as the inventory. */
TRM_API const char *trm_inventory_name(const trm_inventory *inventory);
TRM_API const char *trm_inventory_partition(const trm_inventory *inventory);
/* The number of IPUs (their ids are the smallest), and the number of all ids. */
TRM_API uint32_t trm_inventory_num_ipus(const trm_inventory *inventory);
TRM_API uint32_t trm_inventory_num_ids(const trm_inventory *inventory);
/* NULL for an id that is not that of a single IPU. */
TRM_API const trm_ipu_info *trm_inventory_ipu(const trm_inventory *inventory, uint32_t id);
/* The IPUs of an id, in routing order, and their number; NULL and 0 for an unknown id. */
TRM_API const uint32_t *trm_inventory_members(const trm_inventory *inventory, uint32_t id,
                                              uint32_t *out_count);

/* ---- Attaching ----------------------------------------------------------------------------- */

typedef struct trm_device trm_device;

/* The IPUs to attach to. Zero-initialise it, then set num_ipus or ids. */
typedef struct trm_device_request {
  /* Names the device in messages, such as "/device:IPU:0"; may be NULL. */
  const char *name;
  /* Select this many IPUs: the first id of that size whose IPUs are all free, in ascending order of
   * ids. If the inventory has no id of that size, the first free IPUs form a group. 0 if ids are
   * given (or equal to their number of IPUs). */
  uint32_t num_ipus;
  /* Select these ids, which must not share IPUs. */
  const uint32_t *ids;
  size_t num_ids;
  /* Milliseconds to wait while the IPUs are taken, and between attempts. timeout 0: one attempt;
   * poll 0: 100 ms. */
  uint32_t timeout_ms;
  uint32_t poll_ms;
  /* Reserves the IPUs for a process that has this text in its environment variable
   * TREMULA_RESERVATION: it can attach to them, and no other can, until this device is released.
   * NULL: uses them. */
  const char *reserve_for;
} trm_device_request;

/* Attaches. `inventory` NULL: the environment's (see trm_inventory_load). A process may hold
 * several devices, which share no IPU. The locks are files of the user in TREMULA_RUNTIME_DIR, or
 * /tmp/tremula-<uid>, in a folder for each inventory. A child process does not inherit locks: after
 * fork() it may only release its copy of a device. A process with TREMULA_RESERVATION gets what is
 * reserved for it, where that fits the request. Fails with TRM_INTERNAL if the IPUs are taken,
 * TRM_INVALID_ARGUMENT if the inventory has no such device, TRM_FAILED_PRECONDITION if the folder
 * cannot be used. */
TRM_API trm_status trm_device_attach(trm_inventory *inventory, const trm_device_request *request,
                                     trm_device **out_device, trm_error *error);
/* The same for several devices, all or none: nobody else attaches between. The first request has
 * the time to wait. */
TRM_API trm_status trm_device_attach_all(trm_inventory *inventory,
                                         const trm_device_request *requests, size_t count,
                                         trm_device **out_devices, trm_error *error);
/* Checks whether the inventory has such a device, free or not. Fails as trm_device_attach does. */
TRM_API trm_status trm_device_check(trm_inventory *inventory, const trm_device_request *request,
                                    trm_error *error);
/* Devices are reference-counted, for threads that share one. The last release detaches. */
TRM_API void trm_device_retain(trm_device *device);
TRM_API void trm_device_release(trm_device *device);

/* The attached ids as the log writes them: "IPU: 0", "IPUs: 24" (an id of several IPUs), or
 * "IPUs: 0,1,2" (several ids, or a group without an id). Lives as long as the device. */
TRM_API const char *trm_device_description(const trm_device *device);
/* The number of the device's IPUs. */
TRM_API uint32_t trm_device_num_ipus(const trm_device *device);
/* The one id that names the device's IPUs; -1: several ids, or a group without an id. */
TRM_API int64_t trm_device_id(const trm_device *device);
/* The i-th IPU, in routing order; NULL past the last. Lives as long as the device. */
TRM_API const trm_ipu_info *trm_device_ipu(const trm_device *device, uint32_t i);

/* ---- Who has what -------------------------------------------------------------------------- */

/* The process that is attached to an IPU, as its lock file states it. */
typedef struct trm_attachment {
  bool attached;    /* false: the IPU is free, and all other members are empty */
  int64_t pid;      /* 0 if the process has not written it yet */
  int64_t started;  /* time of attaching, in seconds since 1970 */
  char command[64]; /* the process's name */
  char user[64];
  char device[128];      /* the name in the request, such as "/device:IPU:0" */
  char ids[256];         /* the attached ids, as in "IPUs: 24" without the word; may be cut */
  char reserved_for[64]; /* reserved and not used yet: TREMULA_RESERVATION of who may; else "" */
} trm_attachment;

/* Takes no lock and creates nothing. */
TRM_API trm_status trm_inventory_attachment(const trm_inventory *inventory, uint32_t ipu,
                                            trm_attachment *out_attachment, trm_error *error);
/* The same for every IPU: out_attachments has room for trm_inventory_num_ipus of them. */
TRM_API trm_status trm_inventory_attachments(const trm_inventory *inventory,
                                             trm_attachment *out_attachments, trm_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_DEVICE_H_ */
