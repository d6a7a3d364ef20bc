/* Owns: tremula plan: the answer as a page of the analyser, with the answer as JSON inside. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "plan.h"

static trm_status write_answer(const plan_answer *answer, const char *path, trm_error *error) {
  FILE *out = fopen(path, "w");
  if (out == NULL)
    return fail(error, TRM_UNAVAILABLE, "cannot write %s: %s", path, strerror(errno));
  trm_status status = plan_print_json(answer, out, error);
  if (fclose(out) != 0 && status == TRM_OK) {
    status = fail(error, TRM_UNAVAILABLE, "cannot write %s: %s", path, strerror(errno));
  }
  return status;
}

trm_status plan_write_page(const plan_answer *answer, trm_error *error) {
  char folder[PLAN_PATH_SIZE], path[PLAN_PATH_SIZE + 32], plan[] = "plan", output[] = "--output";
  trm_status status = plan_make_folder(folder, error);
  if (status != TRM_OK) return status;
  snprintf(path, sizeof path, "%s/answer.json", folder);
  status = write_answer(answer, path, error);
  char *arguments[] = {plan, output, (char *)(uintptr_t)answer->request->html, path, NULL};
  if (status == TRM_OK) status = run_python("tremula.tool.view", arguments, error);
  unlink(path);
  rmdir(folder);
  return status;
}
