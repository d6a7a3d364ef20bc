/* Writing x86-64 machine code: instructions on vectors of 512 bits (AVX-512 F, BW, DQ, VL) or of
 * 256 bits (AVX2, FMA, F16C), a pool of constants behind the code, and memory that may be run.
 *
 * Encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapters 2.7
 * (EVEX) and 2.3 (VEX). */
#ifndef TREMULA_HOST_OPS_GENERATE_MACHINE_CODE_H_
#define TREMULA_HOST_OPS_GENERATE_MACHINE_CODE_H_

#include "base/memory.h"

/* General registers by their numbers. */
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

typedef enum trm_opcode_map { MAP_0F = 1, MAP_0F38, MAP_0F3A } trm_opcode_map;
typedef enum trm_code_prefix { PREFIX_NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 } trm_code_prefix;

/* What an instruction is, but for its operands. */
typedef struct trm_code_form {
  uint8_t map, prefix, opcode;
  uint8_t part;   /* of its vectors: 0: whole ones, 1: their lower halves, 2: quarters */
  bool reads_one; /* reads one element from memory without being told to */
  bool has_immediate;
  uint8_t immediate;
} trm_code_form;

/* The last source of an instruction, or where it stores. */
typedef struct trm_code_operand {
  enum {
    OPERAND_REGISTER, /* vector or mask register `number` */
    OPERAND_ARRAY,    /* [number + rax << log2_size], and `vectors` vectors behind it */
    OPERAND_VECTOR,   /* [number], and `vectors` vectors behind it */
    OPERAND_SCALAR,   /* the 32 bits at [number], for all lanes where the code is wide */
    OPERAND_POOL      /* the 32 bits of the pool at `number`, for all lanes */
  } kind;
  uint32_t number;
  uint8_t log2_size, vectors;
} trm_code_operand;

/* A 32-bit distance at `at`, from `end` to a word of the pool. */
typedef struct trm_code_fixup {
  uint32_t at, end, index;
} trm_code_fixup;

typedef struct trm_machine_code {
  bool is_wide; /* vectors of 512 bits; set it before anything is written */
  VECTOR(uint8_t) bytes;
  VECTOR(uint32_t) pool;
  VECTOR(trm_code_fixup) fixups;
  bool failed; /* out of memory */
} trm_machine_code;

void trm_code_bytes(trm_machine_code *code, const uint8_t *bytes, size_t count);
#define CODE(code, ...) \
  trm_code_bytes((code), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
/* Leaves room for a 32-bit distance to an earlier or later place in the code, and fills it in. */
uint32_t trm_code_jump(trm_machine_code *code);
void trm_code_land(trm_machine_code *code, uint32_t jump, size_t place);

/* One instruction on vectors. `to`: the destination, or what is stored; `first`: the first source
 * (0: none). Of wide code only, mask: 0, or the mask register of the lanes that take part; with
 * `zeroes`, the others become 0. */
void trm_code_vector(trm_machine_code *code, trm_code_form form, uint32_t to, uint32_t first,
                     trm_code_operand last, uint32_t mask, bool zeroes);
/* prefetcht1 [number + rax << log2_size + distance]. */
void trm_code_prefetch(trm_machine_code *code, uint32_t number, uint8_t log2_size,
                       uint32_t distance);
/* mov number, [rdi + 8 * slot]. */
void trm_code_load_pointer(trm_machine_code *code, uint32_t number, uint32_t slot);
/* The index in the pool of a word. */
uint32_t trm_code_pool_word(trm_machine_code *code, uint32_t word);

/* Memory with the code in it, that may be run and not written; NULL where the system allows none.
 * Free with trm_code_unmap and the same *out_size. */
void *trm_code_map(trm_machine_code *code, size_t *out_size);
void trm_code_unmap(void *memory, size_t size);
void trm_code_free(trm_machine_code *code);

#endif /* TREMULA_HOST_OPS_GENERATE_MACHINE_CODE_H_ */
