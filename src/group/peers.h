/* The instances of the group: where they run, and whether they are still there. */
#ifndef TREMULA_GROUP_PEERS_H_
#define TREMULA_GROUP_PEERS_H_

#include "tremula/group.h"

typedef enum trm_peer_state { PEER_HERE, PEER_LEFT, PEER_ENDED } trm_peer_state;

/* Meets the others over MPI, which runs. `place` gets the numbers that MPI knows, and the local
 * ones unless `knows_local`. */
trm_status trm_peers_meet(trm_group_place *place, bool knows_local, trm_error *error);
void trm_peers_free(void);

trm_peer_state trm_peer_get_state(uint32_t rank);
/* Only from PEER_HERE; false: it had another already. */
bool trm_peer_set_state(uint32_t rank, trm_peer_state state);
/* An instance of this host that has ended without leaving since the last call, or -1. */
int64_t trm_peers_find_ended(void);
bool trm_peers_share_host(uint32_t one, uint32_t other);
/* How many instances may run on cores that this one may run on, this one among them, and how many
 * of lower rank. 1 before they have met. */
uint32_t trm_peers_num_sharing_cores(uint32_t *out_before);

#endif /* TREMULA_GROUP_PEERS_H_ */
