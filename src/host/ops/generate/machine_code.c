/* Owns: the encoding of machine code, and memory that may be run. */
#include "host/ops/generate/machine_code.h"

#include <string.h>
#include <sys/mman.h>

void trm_code_bytes(trm_machine_code *code, const uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!VECTOR_PUSH(&code->bytes, bytes[i])) code->failed = true;
  }
}

static void write_word(trm_machine_code *code, uint32_t word) {
  CODE(code, (uint8_t)word, (uint8_t)(word >> 8), (uint8_t)(word >> 16), (uint8_t)(word >> 24));
}

uint32_t trm_code_jump(trm_machine_code *code) {
  write_word(code, 0);
  return (uint32_t)code->bytes.count - 4;
}

static void put_distance(trm_machine_code *code, uint32_t at, size_t from, size_t to) {
  const uint32_t distance = (uint32_t)(to - from);
  if (!code->failed) memcpy(code->bytes.items + at, &distance, sizeof distance);
}

void trm_code_land(trm_machine_code *code, uint32_t jump, size_t place) {
  put_distance(code, jump, jump + 4, place);
}

uint32_t trm_code_pool_word(trm_machine_code *code, uint32_t word) {
  for (size_t i = 0; i < code->pool.count; ++i) {
    if (code->pool.items[i] == word) return (uint32_t)i;
  }
  if (!VECTOR_PUSH(&code->pool, word)) code->failed = true;
  return (uint32_t)code->pool.count - 1;
}

/* SIB and what follows it: a displacement that EVEX counts in vectors, of 8 bits; VEX counts in
 * bytes. */
static void write_displacement(trm_machine_code *code, uint8_t reg, uint8_t sib, uint32_t vectors,
                               uint32_t vector_bytes) {
  CODE(code, (uint8_t)((code->is_wide ? 0x44 : 0x84) | reg), sib);
  if (code->is_wide) CODE(code, (uint8_t)vectors);
  else write_word(code, vectors * vector_bytes);
}

/* ModRM and what follows it. */
static void write_operand(trm_machine_code *code, trm_code_form form, uint32_t to,
                          trm_code_operand last) {
  const uint8_t reg = (uint8_t)((to & 7) << 3), low = (uint8_t)(last.number & 7);
  switch (last.kind) {
    case OPERAND_REGISTER: CODE(code, (uint8_t)(0xc0 | reg | low)); break;
    case OPERAND_ARRAY:
      write_displacement(code, reg, (uint8_t)(last.log2_size << 6 | low), last.vectors,
                         8u << last.log2_size);
      break;
    case OPERAND_VECTOR:
      write_displacement(code, reg, (uint8_t)(0x20 | low), last.vectors, 32);
      break;
    case OPERAND_SCALAR: write_displacement(code, reg, (uint8_t)(0x20 | low), 0, 0); break;
    default: {
      CODE(code, (uint8_t)(0x05 | reg));
      const uint32_t at = trm_code_jump(code);
      const uint32_t end = at + 4 + (form.has_immediate ? 1 : 0);
      const trm_code_fixup fixup = {at, end, last.number};
      if (!VECTOR_PUSH(&code->fixups, fixup)) code->failed = true;
    }
  }
}

static void write_evex(trm_machine_code *code, trm_code_form form, uint32_t to, uint32_t first,
                       trm_code_operand last, uint32_t mask, bool zeroes) {
  const bool is_register = last.kind == OPERAND_REGISTER;
  const bool is_pool = last.kind == OPERAND_POOL;
  const bool broadcasts = (last.kind == OPERAND_SCALAR || is_pool) && !form.reads_one;
  const uint32_t base = is_pool ? 0 : last.number, high = is_register ? last.number >> 4 & 1 : 0;
  const uint8_t extensions =
      (uint8_t)((to >> 3 & 1) << 7 | high << 6 | (base >> 3 & 1) << 5 | (to >> 4 & 1) << 4);
  const uint32_t third = (zeroes ? 0x80u : 0u) | (2u - form.part) << 5 | (broadcasts ? 0x10u : 0u) |
                         (~first >> 4 & 1) << 3 | mask;
  CODE(code, 0x62, (uint8_t)((extensions ^ 0xf0) | form.map),
       (uint8_t)((~first & 15) << 3 | 4 | form.prefix), (uint8_t)third, form.opcode);
}

static void write_vex(trm_machine_code *code, trm_code_form form, uint32_t to, uint32_t first,
                      trm_code_operand last) {
  const uint32_t base = last.kind == OPERAND_POOL ? 0 : last.number;
  const uint8_t extensions = (uint8_t)((to >> 3 & 1) << 7 | (base >> 3 & 1) << 5);
  CODE(code, 0xc4, (uint8_t)((extensions ^ 0xe0) | form.map),
       (uint8_t)((~first & 15) << 3 | (1u - form.part) << 2 | form.prefix), form.opcode);
}

void trm_code_vector(trm_machine_code *code, trm_code_form form, uint32_t to, uint32_t first,
                     trm_code_operand last, uint32_t mask, bool zeroes) {
  if (code->is_wide) write_evex(code, form, to, first, last, mask, zeroes);
  else write_vex(code, form, to, first, last);
  write_operand(code, form, to, last);
  if (form.has_immediate) CODE(code, form.immediate);
}

void trm_code_prefetch(trm_machine_code *code, uint32_t number, uint8_t log2_size,
                       uint32_t distance) {
  CODE(code, (uint8_t)(0x40 | (number >> 3 & 1)), 0x0f, 0x18, 0x94,
       (uint8_t)((uint32_t)log2_size << 6 | (number & 7)));
  write_word(code, distance);
}

void trm_code_load_pointer(trm_machine_code *code, uint32_t number, uint32_t slot) {
  CODE(code, (uint8_t)(0x48 | (number >> 3 & 1) << 2), 0x8b, (uint8_t)(0x87 | (number & 7) << 3));
  write_word(code, slot * 8);
}

void *trm_code_map(trm_machine_code *code, size_t *out_size) {
  const size_t copies = code->is_wide ? 1 : 8; /* of a word: EVEX broadcasts by itself */
  const size_t word_size = copies * sizeof(uint32_t);
  const size_t pool = (code->bytes.count + 63) & ~(size_t)63;
  const size_t size = pool + code->pool.count * word_size;
  *out_size = size;
  if (code->failed || size == 0) return NULL;
  for (size_t i = 0; i < code->fixups.count; ++i) {
    const trm_code_fixup *fixup = &code->fixups.items[i];
    put_distance(code, fixup->at, fixup->end, pool + fixup->index * word_size);
  }
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  memcpy(memory, code->bytes.items, code->bytes.count);
  for (size_t i = 0; i < code->pool.count * copies; ++i)
    memcpy(memory + pool + i * sizeof(uint32_t), &code->pool.items[i / copies], sizeof(uint32_t));
  if (mprotect(memory, size, PROT_READ | PROT_EXEC) == 0) return memory;
  munmap(memory, size);
  return NULL;
}

void trm_code_unmap(void *memory, size_t size) {
  if (memory != NULL) munmap(memory, size);
}

void trm_code_free(trm_machine_code *code) {
  VECTOR_FREE(&code->bytes);
  VECTOR_FREE(&code->pool);
  VECTOR_FREE(&code->fixups);
}
