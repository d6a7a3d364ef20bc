/* Events wait in their order until somebody has really taken them. */
#include "events.h"
#include "tf_case.h"

#include <stdlib.h>

static void add(const char *text) {
  trm_tf_event *e = trm_tf_event_create(strlen(text) + 1);
  strcpy((char *)e->data, text);
  assert_false(trm_tf_event_queue_add(e));
}

static void expect(const trm_tf_event_list *list, const char *const *texts, size_t count) {
  assert_int_equal(list->count, count);
  const trm_tf_event *e = list->first;
  for (size_t i = 0; i < count; ++i, e = e->next) assert_string_equal(e->data, texts[i]);
  assert_null(e);
}

static void test_order(void **state) {
  (void)state;
  trm_tf_event_list list = trm_tf_event_queue_take();
  expect(&list, NULL, 0);
  trm_tf_event_queue_put_back(&list);
  add("a");
  add("b");
  list = trm_tf_event_queue_take();
  add("c");
  trm_tf_event_queue_put_back(&list);
  expect(&list, NULL, 0);
  add("d");
  list = trm_tf_event_queue_take();
  expect(&list, (const char *const[]){"a", "b", "c", "d"}, 4);
  trm_tf_event_queue_put_back(&list); /* with none there */
  add("e");
  list = trm_tf_event_queue_take();
  expect(&list, (const char *const[]){"a", "b", "c", "d", "e"}, 5);
  trm_tf_event_list_free(&list);
  list = trm_tf_event_queue_take();
  assert_int_equal(list.bytes, 0);
  expect(&list, NULL, 0);
}

static void test_dropping(void **state) {
  (void)state;
  enum { SIZE = 60 << 20 };
  for (int i = 0; i < 4; ++i) assert_false(trm_tf_event_queue_add(trm_tf_event_create(SIZE)));
  assert_true(trm_tf_event_queue_add(trm_tf_event_create(SIZE))); /* told once */
  assert_false(trm_tf_event_queue_add(trm_tf_event_create(SIZE)));
  assert_false(trm_tf_event_queue_add(NULL));
  trm_tf_event_list list = trm_tf_event_queue_take();
  assert_int_equal(list.count, 4);
  assert_true(trm_tf_event_queue_add(NULL));
  trm_tf_event_list_free(&list);
  list = trm_tf_event_queue_take();
  assert_int_equal(list.count, 0);
}

/* IpuEventTrace where its output cannot be allocated: the next one gives the events. */
static void test_no_output(void **state) {
  (void)state;
  const trm_tf_event_settings settings = {.bits = TRM_TF_EVENTS_RUNS, .directory = ""};
  trm_tf_set_events(&settings);
  trm_tf_events_compile_begin(0, "one");
  trm_tf_events_compile_begin(0, "two");
  TF_OpKernelContext context = {.num_outputs = 1, .has_no_memory = true};
  trm_tf_event_trace_compute(NULL, &context);
  assert_int_equal(context.code, TF_RESOURCE_EXHAUSTED);
  fake_context_clear(&context);
  trm_tf_events_compile_begin(0, "three");
  for (int64_t wanted = 3; wanted >= 0; wanted -= 3) {
    context.num_outputs = 1;
    trm_tf_event_trace_compute(NULL, &context);
    assert_int_equal(context.code, TF_OK);
    assert_int_equal(TF_Dim(context.outputs[0], 0), wanted);
    fake_context_clear(&context);
  }
  trm_tf_set_events(&(trm_tf_event_settings){.directory = ""});
  assert_int_equal(fake_num_tensors(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_dropping),
                                     cmocka_unit_test(test_no_output)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
