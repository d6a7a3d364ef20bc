/* What the parts of the parser of HLO text share: the structure (parse.c), the header
 * (parse_header.c), shapes (parse_shape.c),
 * the values of attributes (parse_attributes.c, parse_groups.c, parse_window.c), tables of source
 * lines (parse_frames.c), and the making of the module (parse_build.c). */
#ifndef TREMULA_HLO_PARSE_H_
#define TREMULA_HLO_PARSE_H_

#include "hlo/attributes.h"
#include "hlo/hlo.h"
#include "hlo/lexer.h"

/* A name that is used: an operand, a control predecessor or a called computation. */
typedef struct trm_reference {
  const char *name; /* a slice of the text */
  uint32_t length;
  uint32_t slot;          /* of a called computation */
  const trm_shape *shape; /* that the text gives an operand, or NULL */
} trm_reference;

/* References of one instruction, of one kind, follow each other. */
typedef struct trm_references {
  VECTOR(trm_reference);
} trm_references;

typedef struct trm_pending_instruction {
  trm_instruction instruction; /* num_operands, num_control_predecessors and num_called are set */
  const char *at;              /* its name in the text */
  size_t operands, controls, called; /* the first reference of each kind */
  uint64_t seen;                     /* bit i: the i-th attribute of the opcode */
  int32_t num_ranges;                /* entries of slice or padding */
  bool has_shape;
  bool has_wrapped; /* of an async pair: `wrapped` is the opcode in its short form */
  trm_opcode wrapped;
  uint32_t num_constraints; /* operand_layout_constraints; TRM_NO_INDEX: absent */
  const trm_shape *constraints;
} trm_pending_instruction;

typedef struct trm_source_location {
  int64_t file, line; /* the file's number, from 1 on */
} trm_source_location;

/* A computation that stands where its name could: `calls={ ... }`. It is read after the others. */
typedef struct trm_pending_inline {
  trm_lexer lexer; /* at its '{' */
  const char *name;
} trm_pending_inline;

/* What Tremula reads and does not compile: an error only where the computation runs. */
typedef struct trm_refusal {
  const char *at; /* NULL: none */
  const char *message;
} trm_refusal;

typedef struct trm_parser {
  trm_lexer lexer;
  trm_module *module;
  trm_error *error;
  trm_references operands, controls, called;
  trm_references open; /* scratch: operands of instructions that are being read */
  trm_refusal refusal; /* the first one of the computation being read */
  VECTOR(trm_pending_inline) inlines;
  VECTOR(int64_t) numbers;    /* scratch */
  VECTOR(trm_shape) shapes;   /* scratch: elements of tuples that are open */
  VECTOR(const char *) files; /* parse_frames.c: the tables of source lines */
  VECTOR(trm_source_location) locations;
  VECTOR(int64_t) frames; /* the location's number */
} trm_parser;

typedef struct trm_pending_computation {
  const char *name; /* a slice of the text */
  size_t length;
  uint32_t first, count; /* its instructions among all */
  uint32_t root;         /* of them; TRM_NO_INDEX: none was marked */
  const char *at;
  trm_refusal refusal;
  bool has_signature;
  trm_shape result; /* of the signature */
} trm_pending_computation;

/* `custom-call-start` and the like: short for async-start of a computation of one instruction. */
typedef struct trm_pending_async {
  uint32_t instruction;
  trm_pending_instruction wrapped;
} trm_pending_async;

/* The state of reading a whole text. */
typedef struct trm_reader {
  trm_parser parser;
  VECTOR(trm_pending_computation) computations;
  VECTOR(trm_pending_instruction) instructions;
  VECTOR(trm_pending_async) asyncs;
  uint32_t entry;      /* of computations; TRM_NO_INDEX: not yet */
  uint32_t num_elided; /* constants whose values the text leaves out */
  bool is_single;      /* the text is one instruction: its operands are the parameters */
} trm_reader;

/* Notes a refusal, unless the computation has one already. `message` is copied. */
trm_status trm_parser_refuse(trm_parser *parser, const char *at, const char *message);
/* "f32[2,3]{1,0}", "(s32[], f32[4])". */
trm_status trm_parse_shape(trm_parser *parser, trm_shape *out_shape);
/* The next tokens are a shape, not a name. */
bool trm_parse_is_shape(const trm_parser *parser);
/* Scratch numbers: one more; those between two characters; those from `first` on, taken out. */
trm_status trm_parse_push_number(trm_parser *parser, int64_t value);
trm_status trm_parse_push_numbers(trm_parser *parser, int open, int close);
trm_status trm_parse_take_dims(trm_parser *parser, size_t first, trm_dims *out_dims);
/* The text of a group `{...}`; of a word or a string. */
trm_status trm_parse_group_text(trm_parser *parser, const char **out_text, size_t *out_size);
trm_status trm_parse_word_text(trm_parser *parser, const char **out_text);
/* Numbers between two characters. */
trm_status trm_parse_numbers(trm_parser *parser, int open, int close, trm_dims *out_dims);
/* Replica groups: `{{0,1},{2,3}}`, `[2,2]<=[4]`, `mesh['a'=4] {'a'}`. */
trm_status trm_parse_groups(trm_parser *parser, trm_replica_groups *out);
/* `{0,1}`. */
trm_status trm_parse_dims(trm_parser *parser, trm_dims *out_dims);
/* A name with or without its percent sign. */
trm_status trm_parse_name(trm_parser *parser, const char *what, const char **out_name,
                          size_t *out_length);
/* `name=value` of an instruction. */
trm_status trm_parse_attribute(trm_parser *parser, trm_pending_instruction *pending);
/* `0_1x0_1_2`, `{size=3x3 stride=2x2 ...}`, `b01f_01io->b01f`. */
trm_status trm_parse_padding(trm_parser *parser, trm_pending_instruction *pending);
trm_status trm_parse_window(trm_parser *parser, trm_window **out_window);
trm_status trm_parse_dim_labels(trm_parser *parser, trm_instruction *instruction);
/* `HloModule name, attributes`, and the tables behind it. */
trm_status trm_parse_header(trm_parser *parser);
/* The tables of source lines behind the header, if they are there. */
trm_status trm_parse_frames(trm_parser *parser);
/* Fills file and line from the tables, where the metadata has none. */
void trm_parse_resolve_frame(const trm_parser *parser, int64_t frame, trm_metadata *metadata);
/* `{a="b", c={...}}`: key, value, ..., NULL. */
trm_status trm_parse_frontend_attributes(trm_parser *parser, const char *const **out_list);

/* Makes the module of the parsed text. */
trm_status trm_parse_build(trm_reader *reader);

#endif /* TREMULA_HLO_PARSE_H_ */
