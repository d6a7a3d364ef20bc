/* Runs a fuzz target over files, and over all files of folders: a replay without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    if (file != NULL) fclose(file);
    return 1;
  }
  const long size = ftell(file);
  rewind(file);
  /* Exactly as large as the input: a sanitizer sees a read past the end. */
  uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
  if (size < 0 || data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) {
    fprintf(stderr, "%s: cannot read\n", path);
    free(data);
    fclose(file);
    return 1;
  }
  fclose(file);
  LLVMFuzzerTestOneInput(data, (size_t)size);
  free(data);
  return 0;
}

static int replay_folder(const char *path, int *count) {
  DIR *folder = opendir(path);
  if (folder == NULL) {
    perror(path);
    return 1;
  }
  int failures = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char name[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    failures += replay_file(name);
    ++*count;
  }
  closedir(folder);
  return failures;
}

int main(int argc, char **argv) {
  int failures = 0, count = 0;
  for (int i = 1; i < argc; ++i) {
    struct stat info;
    if (stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode)) {
      failures += replay_folder(argv[i], &count);
    } else {
      failures += replay_file(argv[i]);
      ++count;
    }
  }
  printf("%d inputs replayed\n", count);
  return failures != 0 || count == 0;
}
