/* Owns: what this instance knows of the others, and the descriptors that tell when one of this host
 * ends. */
#define _GNU_SOURCE
#include "group/peers.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "group/mpi.h"
#include "tremula/log.h"

/* What instances tell each other when they meet. */
typedef struct card {
  char host[64];
  /* Processes of the same host and name space see each other's numbers. */
  uint64_t pid_space;
  int64_t pid;
  cpu_set_t cores; /* that it may run on */
} card;

typedef struct peer {
  int descriptor; /* of the process; -1: another host's, or the system has none */
  atomic_int state;
} peer;

/* Written while no thread of the group runs. */
static struct {
  uint32_t size, rank;
  card *cards;
  peer *peers;
} all;

/* Instances of this host that may run on cores of this one, and how many of them come before it. */
static atomic_uint num_sharing = 1, num_before;

bool trm_peers_share_host(uint32_t one, uint32_t other) {
  return strcmp(all.cards[one].host, all.cards[other].host) == 0 &&
         all.cards[one].pid_space == all.cards[other].pid_space;
}

static int open_process(int64_t pid) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
#else
  return -1;
#endif
}

static void fill_card(card *own) {
  struct stat space;
  gethostname(own->host, sizeof own->host - 1);
  own->pid = getpid();
  if (stat("/proc/self/ns/pid", &space) == 0) own->pid_space = space.st_ino;
  /* A machine of more cores than the set has room for: as if all could meet. */
  if (sched_getaffinity(0, sizeof own->cores, &own->cores) != 0)
    memset(&own->cores, 0xff, sizeof own->cores);
}

static void count_sharing(void) {
  unsigned sharing = 0, before = 0;
  for (uint32_t i = 0; i < all.size; ++i) {
    cpu_set_t common;
    CPU_AND(&common, &all.cards[i].cores, &all.cards[all.rank].cores);
    if (!trm_peers_share_host(i, all.rank) || CPU_COUNT(&common) == 0) continue;
    ++sharing;
    before += i < all.rank;
  }
  atomic_store(&num_sharing, sharing);
  atomic_store(&num_before, before);
  if (sharing > 1) {
    trm_log(TRM_LOG_INFO, "GROUP", "this instance shares its %d cores with %u others",
            CPU_COUNT(&all.cards[all.rank].cores), sharing - 1);
  }
}

uint32_t trm_peers_num_sharing_cores(uint32_t *out_before) {
  *out_before = atomic_load_explicit(&num_before, memory_order_relaxed);
  return atomic_load_explicit(&num_sharing, memory_order_relaxed);
}

trm_status trm_peers_meet(trm_group_place *place, bool knows_local, trm_error *error) {
  trm_peers_free();
  place->rank = trm_mpi_rank();
  place->size = trm_mpi_size();
  card own = {0};
  fill_card(&own);
  all.cards = trm_allocate_zeroed(place->size, sizeof *all.cards);
  all.peers = trm_allocate_zeroed(place->size, sizeof *all.peers);
  if (all.cards == NULL || all.peers == NULL) FAIL_NO_MEMORY("the instances of the group");
  all.rank = place->rank;
  all.size = place->size;
  for (uint32_t i = 0; i < all.size; ++i) all.peers[i].descriptor = -1;
  TRY(trm_mpi_all_gather(&own, sizeof own, all.cards, error));
  count_sharing();
  uint32_t before = 0, here = 0;
  for (uint32_t i = 0; i < all.size; ++i) {
    if (!trm_peers_share_host(i, all.rank)) continue;
    ++here;
    before += i < all.rank;
    if (i != all.rank) all.peers[i].descriptor = open_process(all.cards[i].pid);
  }
  if (!knows_local) {
    place->local_rank = before;
    place->local_size = here;
  }
  return TRM_OK;
}

void trm_peers_free(void) {
  for (uint32_t i = 0; i < all.size; ++i) {
    if (all.peers[i].descriptor >= 0) close(all.peers[i].descriptor);
  }
  trm_free(all.cards);
  trm_free(all.peers);
  memset(&all, 0, sizeof all);
  atomic_store(&num_sharing, 1);
  atomic_store(&num_before, 0);
}

trm_peer_state trm_peer_get_state(uint32_t rank) {
  return (trm_peer_state)atomic_load(&all.peers[rank].state);
}

bool trm_peer_set_state(uint32_t rank, trm_peer_state state) {
  int here = PEER_HERE;
  return rank < all.size &&
         atomic_compare_exchange_strong(&all.peers[rank].state, &here, (int)state);
}

int64_t trm_peers_find_ended(void) {
  for (uint32_t i = 0; i < all.size; ++i) {
    if (all.peers[i].descriptor < 0 || trm_peer_get_state(i) != PEER_HERE) continue;
    struct pollfd process = {.fd = all.peers[i].descriptor, .events = POLLIN};
    if (poll(&process, 1, 0) > 0) return i;
  }
  return -1;
}

const char *trm_group_describe(uint32_t rank, char *buffer, size_t size) {
  if (rank < all.size) {
    snprintf(buffer, size, "instance %u (host %s, pid %lld)", rank, all.cards[rank].host,
             (long long)all.cards[rank].pid);
  } else {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    if (rank == 0) {
      snprintf(buffer, size, "instance 0 (host %s, pid %lld)", host, (long long)getpid());
    } else {
      snprintf(buffer, size, "instance %u", rank);
    }
  }
  return buffer;
}
