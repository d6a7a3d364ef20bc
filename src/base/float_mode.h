/* The CPU's handling of denormals, a mode of each thread. TensorFlow flushes them to zero in its
 * threads; a run must not depend on whose thread it is, so the engine keeps them and puts the
 * caller's mode back afterwards. Threads that are created inherit the mode of their creator. */
#ifndef TREMULA_BASE_FLOAT_MODE_H_
#define TREMULA_BASE_FLOAT_MODE_H_

#if defined(__SSE__)
#include <xmmintrin.h>

/* Keeps denormals from here on; returns the argument for trm_float_mode_restore. */
static inline unsigned trm_float_mode_set(void) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before & ~0x8040u); /* flush to zero, denormals are zero */
  return before;
}
static inline void trm_float_mode_restore(unsigned mode) { _mm_setcsr(mode); }
#else
static inline unsigned trm_float_mode_set(void) { return 0; }
static inline void trm_float_mode_restore(unsigned mode) { (void)mode; }
#endif

#endif /* TREMULA_BASE_FLOAT_MODE_H_ */
