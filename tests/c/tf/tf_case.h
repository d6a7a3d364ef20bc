/* What tests of the plugin share: a configured device, and nodes that run programs. */
#ifndef TREMULA_TESTS_TF_CASE_H_
#define TREMULA_TESTS_TF_CASE_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fake.h"
#include "launch.h"
#include "ops.h"
#include "settings.h"

#include <cmocka.h> /* last: it has a macro `fail` */

/* /device:IPU:0 as an IPU Model: nothing is attached. */
static inline void configure(void) {
  const trm_tf_device_settings settings = {
      .options = "", .cache_path = "", .is_model = 1, .synthetic_initializer = ""};
  char message[256] = "";
  if (trm_tf_configure(0, &settings, message, sizeof message) != TF_OK) fail_msg("%s", message);
}

/* A node that runs the module, with lines of feeds. */
static inline trm_tf_site *node_of(const char *module, const char *feeds) {
  trm_tf_site *site = NULL;
  trm_error error = {0};
  const TF_StringView name = {"node", strlen("node")};
  assert_int_equal(
      trm_tf_site_create(TRM_TF_CALL_MODULE, module, strlen(module), name, feeds, &site, &error),
      TRM_OK);
  return site;
}

/* A module that gives its input, f32[2], times `factor`. */
static inline const char *times(int factor, char text[256]) {
  snprintf(text, 256,
           "HloModule times%d\nENTRY e { a = f32[2] parameter(0)  k = f32[] constant(%d)\n"
           "  b = f32[2] broadcast(k), dimensions={}  ROOT c = f32[2] multiply(a, b) }",
           factor, factor);
  return text;
}

static inline void set_input(TF_OpKernelContext *context, float first, float second) {
  context->inputs[0] = fake_tensor(TF_FLOAT, &(int64_t){2}, 1, (float[2]){first, second});
  context->num_inputs = context->num_outputs = 1;
}

/* Runs such a node on [1, 2]; its first result, or -1 and what failed. */
static inline float run_node(trm_tf_site *site, TF_Code *out_code) {
  TF_OpKernelContext context = {0};
  set_input(&context, 1, 2);
  trm_tf_launch_compute(site, &context);
  float result = -1;
  if (context.code == TF_OK) result = *(float *)TF_TensorData(context.outputs[0]);
  if (out_code) *out_code = context.code;
  else if (context.code != TF_OK) fail_msg("%s", context.message);
  fake_context_clear(&context);
  return result;
}

#endif /* TREMULA_TESTS_TF_CASE_H_ */
