/* Owns: IPU devices for an eager context that TensorFlow made before the plugin was loaded.
 *
 * TensorFlow lists the devices of a context when a program first runs something. A notebook may
 * train on the CPU before it imports the IPU API. TensorFlow has EagerContext::AddDevices for
 * devices that come later, but no C API for it, so the plugin calls the C++ function. Variables,
 * tables, iterators and functions of the program stay as they are: the context is the same.
 *
 * A context with a server keeps its devices in another class, which cannot take more. Python asks
 * for none there. */
#include "cxx.h"
#include "tensorflow.h"

/* absl::Status is one word. The success is 0 or 1 in it, by Abseil's version. */
typedef struct cxx_status {
  uintptr_t word;
} cxx_status;

static bool is_ok(cxx_status status) { return status.word <= 1; }

/* Results of a class with a destructor are in memory: their address is the first argument. */
typedef void construct_options(void *options);
typedef void make_devices(cxx_status *result, const void *options, const trm_tf_cxx_string *prefix,
                          trm_tf_cxx_vector *devices);
typedef void add_devices(cxx_status *result, void *context, trm_tf_cxx_vector *devices);

typedef struct functions {
  construct_options *options; /* tensorflow::SessionOptions::SessionOptions() */
  make_devices *make;         /* tensorflow::DeviceFactory::AddDevices */
  add_devices *add;           /* tensorflow::EagerContext::AddDevices */
} functions;

static bool find_functions(functions *out) {
  *(void **)&out->options = trm_tf_find_symbol("_ZN10tensorflow14SessionOptionsC1Ev");
  *(void **)&out->make = trm_tf_find_symbol(
      "_ZN10tensorflow13DeviceFactory10AddDevicesERKNS_14SessionOptionsERKNSt7__cxx1112basic_"
      "stringIcSt11char_traitsIcESaIcEEEPSt6vectorISt10unique_ptrINS_6DeviceESt14default_deleteISE_"
      "EESaISH_EE");
  *(void **)&out->add = trm_tf_find_symbol(
      "_ZN10tensorflow12EagerContext10AddDevicesESt6vectorISt10unique_ptrINS_6DeviceESt14default_"
      "deleteIS3_EESaIS6_EE");
  return out->options != NULL && out->make != NULL && out->add != NULL;
}

/* The buffer of a tensorflow::SessionOptions, which takes some 400 bytes. */
enum { OPTIONS_SIZE = 4096 };

/* TensorFlow makes devices of all kinds: *out gets ours, which are the last ones. The CPU's comes
 * first. It belongs to nobody, and is leaked once in a process. */
static trm_status make_ours(const functions *tensorflow, trm_tf_cxx_vector *out, trm_error *error) {
  static _Alignas(16) char options[OPTIONS_SIZE];
  static const char name[] = "/job:localhost/replica:0/task:0";
  const trm_tf_cxx_string prefix = {.data = name, .size = sizeof name - 1};
  tensorflow->options(options);
  trm_tf_cxx_vector all = {0};
  cxx_status made;
  tensorflow->make(&made, options, &prefix, &all);
  const ptrdiff_t others = all.end - all.begin - trm_tf_num_devices();
  if (!is_ok(made) || others != 1) {
    FAIL(UNIMPLEMENTED, "TensorFlow has made %td devices that are not IPUs, where 1 was expected.",
         others);
  }
  *out = (trm_tf_cxx_vector){all.begin + 1, all.end, all.end};
  return TRM_OK;
}

static trm_status add(void *context, trm_error *error) {
  functions tensorflow;
  if (!find_functions(&tensorflow)) {
    FAIL(UNIMPLEMENTED, "This TensorFlow cannot add devices to those that it has made.");
  }
  trm_tf_cxx_vector devices;
  TRY(make_ours(&tensorflow, &devices, error));
  cxx_status added;
  tensorflow.add(&added, context, &devices);
  if (!is_ok(added)) FAIL(INTERNAL, "TensorFlow refused the IPUs beside the devices that it has.");
  return TRM_OK;
}

/* Gives a TFE_Context without a server the IPU devices. Call it once in a process. */
TRM_TF_API int32_t trm_tf_add_devices(void *context, char *message, uint64_t message_size);

int32_t trm_tf_add_devices(void *context, char *message, uint64_t message_size) {
  trm_error error = {0};
  return trm_tf_reply(add(context, &error), &error, message, message_size);
}
