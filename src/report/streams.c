/* Owns: the streams of a program (the feed, argument or remote buffer of each stream copy), and the
 * role of its sources in training. */
#include <stdio.h>
#include <string.h>

#include "hlo/config.h"
#include "ipu/program/layers.h"
#include "report/write.h"

/* ---- Roles ---------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *start) {
  return text != NULL && strncmp(text, start, strlen(start)) == 0;
}

/* Whether the op changes variables: TensorFlow's ops, and ours. */
static bool is_update(const trm_program_source *source) {
  const char *type = source->op_type;
  return begins(type, "ResourceApply") || begins(type, "ResourceSparseApply") ||
         begins(type, "Apply") || begins(type, "AssignAdd") || begins(type, "AssignSub");
}

bool trm_report_is_training(const trm_program *program) {
  for (uint32_t s = 0; s < program->num_sources; ++s) {
    if (trm_program_is_gradient(program->sources[s].op_name)) return true;
  }
  return false;
}

const char *trm_report_role(const trm_program_source *source, bool is_training) {
  if (source->op_name[0] == '\0') return NULL;
  if (trm_program_is_gradient(source->op_name)) return "backward";
  if (is_update(source)) return "update";
  return is_training ? "forward" : "inference";
}

/* ---- Streams -------------------------------------------------------------------------------- */

static const trm_instruction *instruction_of(const trm_program *p, uint32_t source) {
  if (source == TRM_NO_INDEX) return NULL;
  const trm_program_source *s = &p->sources[source];
  return &p->module->computations[s->computation].instructions[s->instruction];
}

static bool ends(const char *text, const char *end) {
  const size_t length = strlen(text), own = strlen(end);
  return length >= own && strcmp(text + length - own, end) == 0;
}

/* Sets name and kind of the stream that a StreamCopyMid moves. */
static void describe(const trm_program *p, const trm_program_step *step, trm_report_stream *out) {
  const trm_instruction *i = instruction_of(p, step->source);
  const bool reads = step->bytes_in_total >= step->bytes_out_total;
  out->direction = reads ? "in" : "out";
  out->source = step->source;
  snprintf(out->name, sizeof out->name, "%s", i != NULL ? i->name : step->name);
  if (ends(step->name, "RemoteBufferRead") || ends(step->name, "RemoteBufferWrite")) {
    out->kind = "remote";
    return;
  }
  out->kind = i != NULL ? "host" : reads ? "arguments" : "results";
  if (i == NULL) return;
  const bool own = i->opcode == TRM_OP_CUSTOM_CALL;
  if (i->opcode == TRM_OP_INFEED || (own && i->call_id == TRM_CALL_INFEED)) out->kind = "infeed";
  if (i->opcode == TRM_OP_OUTFEED || (own && i->call_id == TRM_CALL_OUTFEED)) out->kind = "outfeed";
  if (out->kind[0] == 'h') return;
  json_t *config = own ? trm_instruction_config(i, 0, NULL) : NULL;
  const char *feed = own ? json_string_value(json_object_get(config, "feed")) : i->infeed_config;
  if (feed != NULL && feed[0] != '\0') snprintf(out->name, sizeof out->name, "%s", feed);
  json_decref(config);
}

static bool same(const trm_report_stream *a, const trm_report_stream *b) {
  return strcmp(a->kind, b->kind) == 0 && strcmp(a->direction, b->direction) == 0 &&
         strcmp(a->name, b->name) == 0;
}

trm_status trm_report_find_streams(const trm_program *p, trm_report_streams *out_streams,
                                   trm_error *error) {
  *out_streams = (trm_report_streams){
      .of_step = trm_allocate_zeroed((size_t)p->num_steps + 1, sizeof *out_streams->of_step)};
  CHECK_MEMORY(out_streams->of_step, "streams");
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    out_streams->of_step[s] = -1;
    if (p->steps[s].type != TRM_STEP_TYPE_STREAM_COPY_MID) continue;
    trm_report_stream found = {0};
    describe(p, &p->steps[s], &found);
    size_t k = 0;
    while (k < out_streams->list.count && !same(&out_streams->list.items[k], &found)) ++k;
    if (k == out_streams->list.count && !VECTOR_PUSH(&out_streams->list, found)) {
      trm_report_free_streams(out_streams);
      FAIL_NO_MEMORY("streams");
    }
    out_streams->list.items[k].bytes +=
        p->steps[s].executions * (double)(p->steps[s].bytes_in_total + p->steps[s].bytes_out_total);
    out_streams->of_step[s] = (int64_t)k;
  }
  return TRM_OK;
}

void trm_report_free_streams(trm_report_streams *streams) {
  trm_free(streams->of_step);
  VECTOR_FREE(&streams->list);
  streams->of_step = NULL;
}
