/* Teams: the threads that replicas run on, and how they meet.
 *
 * Member 0 is the caller's thread, the others are the team's own. Members meet at barriers; the
 * first failure of any of them stops all, so that nobody waits for one who will not come. */
#ifndef TREMULA_EXEC_TEAM_H_
#define TREMULA_EXEC_TEAM_H_

#include <stdatomic.h>

#include "ops/kernel.h"

typedef struct trm_team trm_team;

typedef trm_status (*trm_team_fn)(void *context, uint32_t member, trm_error *error);

/* Starts size - 1 threads. `cancelled` outlives the team: when it becomes true, waiting ends. */
trm_status trm_team_create(uint32_t size, const atomic_bool *cancelled, trm_team **out_team,
                           trm_error *error);
void trm_team_free(trm_team *team);

/* Calls function(context, member) on every member's thread at once, each with its share of the
 * caller's cores, and waits for all. Returns the status and message of the first that failed. */
trm_status trm_team_run(trm_team *team, trm_team_fn function, void *context, trm_error *error);

/* How member `member` meets the others. */
trm_exchange *trm_team_exchange(trm_team *team, uint32_t member);
/* Whether a member has failed in this run: the others may as well stop. */
bool trm_team_is_stopped(const trm_team *team);

#endif /* TREMULA_EXEC_TEAM_H_ */
