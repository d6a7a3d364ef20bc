/* Owns: `poprun`, which starts a program as several instances: what happens in which order, and the
 * IPUs of the instances.
 *
 * poprun is a small parent of mpirun. It reserves IPUs for all instances at once, and holds them
 * until mpirun has ended, so that nobody else attaches to them before an instance does. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "poprun.h"

/* ---- IPUs ----------------------------------------------------------------------------------- */

/* The ids of a device as TREMULA_DEVICE_ID has them: one id, or the numbers of the IPUs. */
static void write_ids(const trm_device *device, char *out, size_t size) {
  const int64_t id = trm_device_id(device);
  size_t used = 0;
  if (id >= 0) {
    snprintf(out, size, "%lld", (long long)id);
    return;
  }
  for (uint32_t i = 0; i < trm_device_num_ipus(device) && used < size; ++i) {
    used += (size_t)snprintf(out + used, size - used, "%s%u", i == 0 ? "" : ",",
                             trm_device_ipu(device, i)->id);
  }
}

/* Another host has an inventory of its own, which is not locked from here: its instances get the
 * ids that are the first when all are free. */
static int choose_unlocked(poprun_instance *instance, const trm_inventory *inventory,
                           uint32_t num_ipus) {
  long left = instance->local;
  for (uint32_t id = 0; id < trm_inventory_num_ids(inventory); ++id) {
    uint32_t count;
    trm_inventory_members(inventory, id, &count);
    if (count != num_ipus || left-- > 0) continue;
    snprintf(instance->ids, sizeof instance->ids, "%u", id);
    return 0;
  }
  return poprun_fail("the inventory %s has no %ld devices with %u IPUs for the host %s",
                     trm_inventory_name(inventory), instance->num_local, num_ipus, instance->host);
}

static int reserve_local(poprun_job *job, uint32_t num_ipus) {
  const size_t count = (size_t)job->options.num_instances;
  trm_device_request *requests = calloc(count, sizeof *requests);
  trm_device **devices = calloc(count, sizeof(trm_device *));
  char(*names)[32] = calloc(count, sizeof *names);
  if (requests == NULL || devices == NULL || names == NULL) {
    exit(poprun_fail("out of memory"));
  }
  size_t num_local = 0;
  for (size_t i = 0; i < count; ++i) {
    poprun_instance *instance = &job->instances[i];
    if (!instance->is_local) continue;
    snprintf(instance->reservation, sizeof instance->reservation, "poprun-%ld-%zu", (long)getpid(),
             i);
    snprintf(names[i], sizeof names[i], "instance %zu", i);
    requests[num_local++] = (trm_device_request){
        .name = names[i], .num_ipus = num_ipus, .reserve_for = instance->reservation};
  }
  trm_error error = {0};
  int code = 0;
  if (trm_device_attach_all(job->inventory, requests, num_local, devices, &error) != TRM_OK) {
    code = poprun_fail("%s", error.message);
  }
  for (size_t i = 0, next = 0; code == 0 && i < count; ++i) {
    poprun_instance *instance = &job->instances[i];
    if (!instance->is_local) continue;
    instance->device = devices[next++];
    write_ids(instance->device, instance->ids, sizeof instance->ids);
    poprun_log(1, "instance %zu has %s", i, trm_device_description(instance->device));
  }
  free(requests);
  free(devices);
  free(names);
  return code;
}

static int choose_ipus(poprun_job *job) {
  const long each = job->local_replicas * job->options.ipus_per_replica;
  const long wanted = each * job->instances[0].num_local;
  trm_error error = {0};
  if (trm_inventory_load(NULL, &job->inventory, &error) != TRM_OK) {
    return poprun_fail("%s", error.message);
  }
  if (job->options.offline_mode) {
    for (long i = 0; i < job->options.num_instances; ++i) {
      snprintf(job->instances[i].ids, sizeof job->instances[i].ids, "offline");
    }
    return 0;
  }
  if (wanted > trm_inventory_num_ipus(job->inventory)) {
    return poprun_fail("the instances of a host need %ld IPUs, and the inventory %s has %u; the "
                       "environment variable TREMULA_INVENTORY chooses another one",
                       wanted, trm_inventory_name(job->inventory),
                       trm_inventory_num_ipus(job->inventory));
  }
  for (long i = 0; i < job->options.num_instances; ++i) {
    if (job->instances[i].is_local) continue;
    const int code = choose_unlocked(&job->instances[i], job->inventory, (uint32_t)each);
    if (code != 0) return code;
  }
  return reserve_local(job, (uint32_t)each);
}

static void note_vipu(const poprun_job *job) {
  const poprun_options *options = &job->options;
#define NUMBER(member, name, value, least, help)
#define TEXT(member, name, value, help)
#define LIST(member, name, help)
#define SWITCH(member, name, value, help)
#define VIPU(member, name, help) || options->member[0] != '\0'
  const bool is_given = false
#include "poprun_options.def"
      ;
  if (!is_given) return;
  poprun_note("there is no V-IPU server; the virtual inventory %s is used",
              trm_inventory_name(job->inventory));
}

/* ---- In order ------------------------------------------------------------------------------- */

static int work(poprun_job *job, words *command) {
  int code = poprun_place_instances(job);
  if (code == 0) code = poprun_find_mpirun(job);
  if (code == 0) code = choose_ipus(job);
  if (code != 0) return code;
  note_vipu(job);
  if (job->options.print_topology) poprun_print_topology(job);
  code = poprun_build_command(job, command);
  if (code == 0) code = poprun_check_hosts(job);
  if (code != 0) return code;
  poprun_log_command(command);
  poprun_log(1, "starting %ld instances, each with %ld replicas of %ld IPUs",
             job->options.num_instances, job->local_replicas, job->options.ipus_per_replica);
  return poprun_run(job, command);
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], POPRUN_INSTANCE) == 0) return poprun_run_instance(argv + 2);
  poprun_job job = {0};
  words command = {0};
  int code = poprun_read_options(&job.options, argc, argv);
  if (code == 0 && !job.options.is_done) code = work(&job, &command);
  for (long i = 0; job.instances != NULL && i < job.options.num_instances; ++i) {
    trm_device_release(job.instances[i].device);
  }
  trm_inventory_release(job.inventory);
  words_free(&job.hosts);
  words_free(&command);
  free(job.instances);
  free(job.mpirun);
  poprun_free_options(&job.options);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    return poprun_fail("cannot write to the standard output");
  }
  return code;
}
