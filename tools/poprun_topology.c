/* Owns: the table of --print-topology: hosts, IPU-Link domains, instances and replicas, where a
 * cell is as wide as its replicas.
 *
 *      ===========================
 *     |      poprun topology      |
 *     |===========================|
 *     | hosts     |   localhost   |
 *     |-----------|---------------|
 *     | ILDs      |       0       |
 *     |-----------|---------------|
 *     | instances |   0   |   1   |
 *     |-----------|---------------|
 *     | replicas  | 0 | 1 | 2 | 3 |
 *      ---------------------------  */
#include <string.h>

#include "poprun.h"

enum { FIRST_COLUMN = 11 };

static void print_times(char c, int count) {
  for (int i = 0; i < count; ++i) putchar(c);
}

static void print_middle(const char *text, int width) {
  const int length = (int)strlen(text);
  const int left = (width - length) / 2;
  printf("%*s%s%*s", left, "", text, width - length - left, "");
}

/* A row with `count` cells. `hosts`: their names; NULL: numbers. */
static void print_row(const char *head, long count, int width, const words *hosts) {
  printf("| %-*s|", FIRST_COLUMN - 1, head);
  const int cell = (width - (int)count + 1) / (int)count;
  for (long i = 0; i < count; ++i) {
    char number[32];
    snprintf(number, sizeof number, "%ld", i);
    print_middle(hosts == NULL ? number : hosts->items[i], cell);
    putchar('|');
  }
  putchar('\n');
}

static void print_line(int width) {
  putchar('|');
  print_times('-', FIRST_COLUMN);
  putchar('|');
  print_times('-', width);
  printf("|\n");
}

void poprun_print_topology(const poprun_job *job) {
  const poprun_options *options = &job->options;
  const long num_hosts = (long)job->hosts.count;
  size_t longest = 0;
  for (size_t i = 0; i < job->hosts.count; ++i) {
    const size_t length = strlen(job->hosts.items[i]);
    if (length > longest) longest = length;
  }
  /* The width of a replica's cell with its bar, so that the longest host fits. */
  const int per_host = (int)(options->num_replicas / num_hosts);
  int replica = 4 + (options->num_replicas > 10) + (options->num_replicas > 100);
  while (per_host * replica < (int)longest + 3) ++replica;
  const int width = replica * (int)options->num_replicas - 1;
  const int whole = FIRST_COLUMN + 1 + width;
  putchar(' ');
  print_times('=', whole);
  printf("\n|");
  print_middle("poprun topology", whole);
  printf("|\n|");
  print_times('=', whole);
  printf("|\n");
  print_row("hosts", num_hosts, width, &job->hosts);
  print_line(width);
  print_row("ILDs", options->num_ilds, width, NULL);
  print_line(width);
  print_row("instances", options->num_instances, width, NULL);
  print_line(width);
  print_row("replicas", options->num_replicas, width, NULL);
  putchar(' ');
  print_times('-', whole);
  putchar('\n');
  fflush(stdout);
}
