/* Codelets: what popc writes into a .gp file, for the engine.
 *
 * A .gp is a shared object with a symbol `trm_poplar_codelets`, a trm_codelet_table that lists the
 * vertices: their fields, and a function that calls compute(). The engine allocates a vertex's
 * state, zero at first, fills in the fields by their offsets, and calls the function. No
 * constructor runs. The file is C11 and C++11. */
#ifndef TREMULA_POPLAR_CODELET_H_
#define TREMULA_POPLAR_CODELET_H_

#include <stdint.h>

/* The version of this header that a .gp was made for. */
#define TRM_CODELET_VERSION 2

typedef enum trm_codelet_kind {
  /* Plain members, which setInitialValue fills: `count` elements of dtype, one after the other. */
  TRM_CODELET_VALUE = 1,
  /* Vector<T> of constants: `outer` says how it lies; setInitialValue fills the elements. */
  TRM_CODELET_VALUES = 2,
  /* Input<T>, Output<T>, InOut<T> of a number: one pointer. */
  TRM_CODELET_EDGE = 3,
  /* Input<Vector<T>> and its like: `outer` says how it lies. */
  TRM_CODELET_EDGES = 4,
  /* Vector<Input<Vector<T>>>, Input<VectorList<T>>, Vector<Input<T>>: `outer` says how the list
   * lies, whose elements lie as `inner` says. */
  TRM_CODELET_LISTS = 5
} trm_codelet_kind;

typedef enum trm_codelet_direction {
  TRM_CODELET_NONE = 0, /* of VALUE and VALUES */
  TRM_CODELET_INPUT = 1,
  TRM_CODELET_OUTPUT = 2,
  TRM_CODELET_INOUT = 3
} trm_codelet_direction;

/* How a vector lies in the state, on the host. */
typedef enum trm_codelet_layout {
  TRM_CODELET_POINTER = 0, /* T *data: ONE_PTR, COMPACT_PTR, SCALED_PTR..; also of no vector */
  TRM_CODELET_SPAN = 1     /* T *data, then uint64_t size: SPAN, SHORT_SPAN, VectorList */
} trm_codelet_layout;

/* The two words of a SPAN. */
typedef struct trm_codelet_span {
  void *data;
  uint64_t size; /* elements */
} trm_codelet_span;

typedef struct trm_codelet_field {
  const char *name;
  uint32_t offset;   /* in the state, in bytes */
  uint32_t count;    /* of VALUE: elements, 1 unless the member is an array; else 0 */
  uint8_t kind;      /* trm_codelet_kind */
  uint8_t direction; /* trm_codelet_direction */
  uint8_t dtype;     /* of an element, a number of tremula/dtype.def */
  uint8_t width;     /* numbers in an element: 2 for float2 and half2, else 1 */
  uint8_t outer;     /* trm_codelet_layout */
  uint8_t inner;     /* of LISTS */
  uint8_t ipu_bytes; /* of the field in the state on an IPU: SPAN 8, ONE_PTR 4, ... */
  uint8_t min_align; /* bytes; 0: that of the type */
} trm_codelet_field;

/* Calls compute() of the vertex whose state it gets; `worker` is that of a MultiVertex. Returns
 * NULL, or the text of what compute() threw, until the thread's next call. */
typedef const char *(*trm_codelet_run)(void *state, uint32_t worker);

typedef struct trm_codelet_vertex {
  /* "ns::Name<float,half>": no blanks; types are named as poplar::Type names them, enumerators by
   * their qualified names. */
  const char *name;
  trm_codelet_run run;
  uint32_t state_bytes, state_align; /* sizeof and alignof of the class */
  uint32_t workers;                  /* 1, or of a MultiVertex 6: compute is called for each */
  uint32_t code_bytes;               /* of compute() on the host; 0: not known */
  uint32_t num_fields;
  const trm_codelet_field *fields;
} trm_codelet_vertex;

typedef struct trm_codelet_table {
  uint32_t size;         /* of this struct */
  uint32_t version;      /* TRM_CODELET_VERSION */
  uint32_t vertex_bytes; /* sizeof(trm_codelet_vertex) */
  uint32_t field_bytes;  /* sizeof(trm_codelet_field) */
  uint32_t num_vertices;
  const trm_codelet_vertex *vertices;
} trm_codelet_table;

#endif /* TREMULA_POPLAR_CODELET_H_ */
