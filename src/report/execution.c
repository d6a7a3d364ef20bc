/* Owns: the execution report: the cycles of a run and of each of its steps (docs/events.md). */
#include "ipu/target/target.h"
#include "report/describe.h"

void trm_describe_execution(const trm_program *p, trm_stream *s) {
  const trm_program_totals *t = &p->totals;
  trm_stream_object(s);
  trm_stream_put_string(s, "module", p->module->name);
  trm_stream_put_string(s, "profilerMode", "ESTIMATED");
  trm_stream_key(s, "simulation");
  trm_stream_object(s);
  trm_stream_put_int(s, "cycles", t->cycles);
  trm_stream_key(s, "seconds");
  trm_stream_real(s, t->seconds);
  trm_stream_key(s, "cyclesByPart");
  trm_stream_object(s);
  trm_stream_put_int(s, "compute", t->compute_cycles);
  trm_stream_put_int(s, "copy", t->copy_cycles);
  trm_stream_put_int(s, "exchange", t->exchange_cycles);
  trm_stream_put_int(s, "globalExchange", t->global_exchange_cycles);
  trm_stream_put_int(s, "host", t->host_cycles);
  trm_stream_put_int(s, "collectives", t->collective_cycles);
  trm_stream_put_int(s, "betweenDomains", t->between_domains_cycles);
  trm_stream_put_int(s, "sync", t->sync_cycles);
  trm_stream_put_int(s, "control", t->control_cycles);
  trm_stream_put_int(s, "overlapped", t->overlapped_cycles);
  trm_stream_end_object(s);
  trm_stream_key(s, "steps");
  trm_stream_array(s);
  for (uint32_t i = 0; i < p->num_steps; ++i) {
    const trm_program_step *step = &p->steps[i];
    if (step->end != i + 1) continue; /* its children are listed instead */
    trm_stream_object(s);
    trm_stream_put_int(s, "program", i);
    trm_stream_put_string(s, "type", trm_program_step_type_name(step->type));
    trm_stream_put_string(s, "name", step->name);
    trm_stream_put_int(s, "cycles", step->cycles);
    trm_stream_put_int(s, "syncCycles", step->sync_cycles);
    trm_stream_put_int(s, "activeTiles", step->active_tiles);
    trm_stream_key(s, "executions");
    trm_stream_real(s, step->executions);
    trm_stream_end_object(s);
  }
  trm_stream_end_array(s);
  trm_stream_end_object(s);
  trm_stream_end_object(s);
}
