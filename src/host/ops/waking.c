/* Owns: the decision whether waking threads pays (waking.h). */
#include "host/ops/waking.h"

#include "base/limits.h"

/* Python's settings let threads spin for 20 to 90 microseconds before they sleep, and cores that
 * were idle for a millisecond take longer to come back. */
#define SPINNING_FOR UINT64_C(50000)
#define DOZING_FOR UINT64_C(1000000)

/* A cost is an average over about this many wakings. */
#define AVERAGED 32
/* A cost falls by this share each time it prevents a waking. So the process notices when the
 * machine is quiet again. */
#define FORGOTTEN 3072
/* Savings are those of about this many steps. */
#define RECENT 64
#define ONE_REST INT64_C(1000000)

static int64_t load(const atomic_int_fast64_t *value) {
  return atomic_load_explicit(value, memory_order_relaxed);
}

static void store(atomic_int_fast64_t *value, int64_t number) {
  atomic_store_explicit(value, number, memory_order_relaxed);
}

static trm_waiting waiting_since(const atomic_uint_fast64_t *end, uint64_t now) {
  const uint64_t before = atomic_load_explicit(end, memory_order_relaxed);
  const uint64_t time = now > before ? now - before : 0;
  return time < SPINNING_FOR ? TRM_SPINNING : time < DOZING_FOR ? TRM_DOZING : TRM_ASLEEP;
}

/* Adds a step to the recent ones. Returns what the steps after a rest save on the average, without
 * the first of them. */
static int64_t expected(trm_waking *waking, int64_t saved, trm_waiting since_step) {
  const bool rested = since_step == TRM_ASLEEP;
  const int64_t cost = load(&waking->costs[since_step]);
  int64_t sum = load(&waking->saved), rests = load(&waking->rests);
  const int64_t gain = saved - 2 * cost; /* with room for an average that has fallen */
  sum += (rested || gain < 0 ? 0 : gain) - sum / RECENT;
  rests += (rested ? ONE_REST : 0) - rests / RECENT;
  store(&waking->saved, sum);
  store(&waking->rests, rests);
  return rests > ONE_REST ? (int64_t)((double)sum * (double)ONE_REST / (double)rests) : sum;
}

/* Lets a cost fall, and with it those of threads that have waited less: they cost no more. */
static void forget(trm_waking *waking, trm_waiting since_waking) {
  const int64_t known = load(&waking->costs[since_waking]), cost = known - known / FORGOTTEN;
  for (int i = 0; i <= (int)since_waking; ++i) {
    if (load(&waking->costs[i]) > cost) store(&waking->costs[i], cost);
  }
}

bool trm_waking_pays(trm_waking *waking, uint64_t saved, uint64_t now) {
  const trm_waiting since_waking = waiting_since(&waking->woken_at, now);
  const trm_waiting since_step = waiting_since(&waking->step_at, now);
  const int64_t own = (int64_t)(saved < TRM_WAKING_MOST_COST ? saved : TRM_WAKING_MOST_COST) * 1000;
  const int64_t later = expected(waking, own, since_step);
  const int64_t gain = own + (since_waking == TRM_SPINNING ? 0 : later);
  if (saved >= TRM_WAKING_MOST_COST || gain >= load(&waking->costs[since_waking])) return true;
  forget(waking, since_waking);
  return false;
}

void trm_waking_note(trm_waking *waking, uint64_t cost, uint64_t begin, uint64_t end) {
  const trm_waiting waited = waiting_since(&waking->woken_at, begin);
  const int64_t known = load(&waking->costs[waited]),
                most = TRM_WAKING_MOST_TIMES * known + TRM_WAKING_MOST_MORE;
  const int64_t found = (int64_t)(cost < TRM_WAKING_MOST_COST ? cost : TRM_WAKING_MOST_COST) * 1000;
  const int64_t average = known + ((found < most ? found : most) - known) / AVERAGED;
  store(&waking->costs[waited], average);
  for (int i = (int)waited + 1; i < TRM_NUM_WAITING;
       ++i) { /* who has waited longer costs no less */
    if (load(&waking->costs[i]) < average) store(&waking->costs[i], average);
  }
  atomic_store_explicit(&waking->woken_at, end, memory_order_relaxed);
  trm_waking_note_alone(waking, end);
}

void trm_waking_note_alone(trm_waking *waking, uint64_t end) {
  atomic_store_explicit(&waking->step_at, end, memory_order_relaxed);
}
