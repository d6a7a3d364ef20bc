/* Teams: the threads of replicas, and their barrier.
 *
 * Member 0 is the caller's thread; the team owns the others. Members meet at barriers. The first
 * failure of a member stops all members, because they would wait for it for ever. */
#ifndef TREMULA_HOST_EXEC_TEAM_H_
#define TREMULA_HOST_EXEC_TEAM_H_

#include <stdatomic.h>

#include "host/exec/remote.h"

typedef struct trm_team trm_team;

typedef trm_status (*trm_team_fn)(void *context, uint32_t member, trm_error *error);

/* A team, and the replicas of other processes. */
typedef struct trm_team_place {
  uint32_t size;  /* members */
  uint32_t first; /* the replica that member 0 is */
  uint32_t num_replicas;
  trm_remote *remote; /* NULL: no others */
} trm_team_place;

/* Starts size - 1 threads. `cancelled` and the remote must outlive the team; when `cancelled`
 * becomes true, members stop waiting. */
trm_status trm_team_create(const trm_team_place *place, const atomic_bool *cancelled,
                           trm_team **out_team, trm_error *error);
void trm_team_free(trm_team *team);

/* Calls function(context, member) on every member's thread at once, each with its share of the
 * caller's cores. Returns when all have returned, with the status and message of the first failure.
 */
trm_status trm_team_run(trm_team *team, trm_team_fn function, void *context, trm_error *error);

/* The exchange by which a member meets the others. */
trm_exchange *trm_team_exchange(trm_team *team, uint32_t member);
/* Whether a member has failed in this run, so that the others should stop. */
bool trm_team_is_stopped(const trm_team *team);

#endif /* TREMULA_HOST_EXEC_TEAM_H_ */
